package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// counts holds what clients, proxy and target have counted.
type counts struct {
	clients tally
	proxy   rig.Metrics

	seen, seenHTTP2, served, malformed int64 // by the target
}

// statuses are the statuses that may occur.
var statuses = []int{101, 200, 429, 501, 502, 503}

// audit expects that the counts agree, and that enough different things happened.
func (b *counts) audit(e *result.Expectations) {
	count := func(family string, labels ...string) int64 { return int64(b.proxy.Sum(family, labels...)) }
	forwarded := count("ratelimiter_requests_total", `decision="forwarded"`)
	decided := forwarded + count("ratelimiter_requests_total", `decision="rejected"`)
	abandoned, retries := count("ratelimiter_requests_abandoned_total"), count("ratelimiter_upstream_retries_total")
	failed := count("ratelimiter_upstream_errors_total") + count("ratelimiter_upstream_shed_total")
	answered, byStatus := int64(0), b.answered()
	for status, read := range b.clients.byStatus {
		n := byStatus[status]
		answered += n
		e.Never(n > 0 && !slices.Contains(statuses, status), "%d answers with status %d", n, status)
		e.Never(int64(read) > n || n > int64(read+b.clients.lost),
			"status %d: the proxy counts %d, clients %d and %d not waited for", status, n, read, b.clients.lost)
	}
	shed := count("ratelimiter_upstream_shed_total", `kind="gate"`)
	e.Never(decided+shed != answered+abandoned, "%d decided and %d shed, but %d answered and %d abandoned", decided,
		shed, answered, abandoned)
	e.Never(b.malformed > 0, "the target received %d messages that are not requests", b.malformed)
	e.Never(b.seen > forwarded+retries, "the target saw %d requests; %d were forwarded and %d repeated", b.seen,
		forwarded, retries)
	e.Never(b.seen < forwarded+retries-abandoned-failed,
		"the target saw %d requests of %d forwarded and %d repeated; %d were abandoned, %d failed", b.seen, forwarded,
		retries, abandoned, failed)
	whole := int64(b.clients.byStatus[200] - b.clients.cut)
	e.Never(whole > b.served, "clients read %d whole answers, the target sent %d", whole, b.served)
	e.Never(count("ratelimiter_panics_total") > 0, "%d faults of the proxy", count("ratelimiter_panics_total"))
	for _, status := range []int{101, 200, 429, 501, 502} {
		e.Never(b.clients.byStatus[status] == 0, "the run did not cover answers with %d", status)
	}
	e.Never(b.seenHTTP2 == 0 || b.seenHTTP2 == b.seen, "the run did not cover both protocols of the target: %d of %d by HTTP/2",
		b.seenHTTP2, b.seen)
	for _, protocol := range []string{"http1", "h2c"} {
		e.Never(count("ratelimiter_requests_by_protocol_total", `protocol="`+protocol+`"`) == 0,
			"the run did not cover %s", protocol)
	}
	e.Never(retries == 0 || b.clients.cut == 0 || b.clients.lost == 0,
		"the run did not cover every case: %d repeated, %d cut, %d not waited for", retries, b.clients.cut, b.clients.lost)
}

func (b *counts) answered() map[int]int64 {
	by := make(map[int]int64)
	for name, n := range b.proxy {
		code, ok := strings.CutPrefix(name, `ratelimiter_responses_total{code="`)
		if status, err := strconv.Atoi(strings.TrimSuffix(code, `"}`)); ok && err == nil && n > 0 &&
			status < len(b.clients.byStatus) {
			by[status] = int64(n)
		}
	}
	return by
}

// resources are what the proxy holds when it is idle.
type resources struct {
	Descriptors, Goroutines, Clients, Targets, InFlight int
	RSS                                                 int64 // bytes
}

// The proxy's memory may be larger than in the baseline, because the heap grows to what the
// busiest moment needed.
const (
	rssFactor = 1.5
	rssSlack  = 32 << 20
)

// grown describes what exceeds the baseline, and connections and requests that are left although
// the proxy should be idle.
func (h resources) grown(base resources) (problems []string) {
	for _, x := range []struct {
		what        string
		now, before int
	}{
		{"descriptors", h.Descriptors, base.Descriptors}, {"goroutines", h.Goroutines, base.Goroutines},
		{"clients' connections", h.Clients, 0}, {"connections to the target", h.Targets, 0},
		{"requests at the target", h.InFlight, 0},
	} {
		if x.now > x.before {
			problems = append(problems, fmt.Sprintf("%d %s, %d in the baseline", x.now, x.what, x.before))
		}
	}
	if float64(h.RSS) > rssFactor*float64(base.RSS)+rssSlack {
		problems = append(problems, fmt.Sprintf("%d MB of memory, %d in the baseline", h.RSS>>20, base.RSS>>20))
	}
	return problems
}
