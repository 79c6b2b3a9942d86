package chaos

import (
	"bufio"
	"bytes"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"weir/bench/lab/result"
	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
)

// net/http reads every request as one request, with a unique id; its answer differs from all
// others.
func TestRequests(t *testing.T) {
	r, seen := rand.New(rand.NewPCG(seed, 0)), make(map[string]bool)
	var all []request
	var text []byte
	for i := range 3000 {
		q := newRequest(r, 7, i)
		all, text = append(all, q), q.append(text)
	}
	in := bufio.NewReader(bytes.NewReader(text))
	var before *request
	for i := range all {
		q := &all[i]
		req, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("%s %s is no request: %v", q.method, q.target, err)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil || req.Method != q.method || req.URL.Path != q.target || !bytes.Equal(body, q.body) {
			t.Fatalf("%s %s with %d bytes became %s %s with %d, %v", q.method, q.target, len(q.body), req.Method,
				req.URL.Path, len(body), err)
		}
		if seen[q.target] {
			t.Fatalf("%s is asked twice", q.target)
		}
		seen[q.target] = true
		own := answerTo(q)
		if !q.answers(own) {
			t.Errorf("%s %s does not take its own answer", q.method, q.target)
		}
		if before != nil && q.method != "HEAD" && before.method != "HEAD" && q.answers(answerTo(before)) {
			t.Errorf("%s takes the answer of %s", q.target, before.target)
		}
		if q.method != "HEAD" && q.answers(own[:len(own)-1]) {
			t.Errorf("%s takes an answer that lacks a byte", q.target)
		}
		before = q
	}
	if n := len(behaviours); n != 14 {
		t.Errorf("%d behaviours", n)
	}
	for _, m := range behaviours {
		found := false
		for target := range seen {
			found = found || strings.HasPrefix(target, "/"+m.name+"/")
		}
		if !found {
			t.Errorf("no request has the behaviour %q", m.name)
		}
	}
}

func answerTo(q *request) []byte {
	if q.method == "HEAD" {
		return nil
	}
	b := []byte(echo(q.method, q.target, int64(len(q.body)), crc32.ChecksumIEEE(q.body)))
	if strings.HasPrefix(q.target, "/large/") {
		b = append(b, strings.Repeat(".", largeBytes)...)
	}
	return b
}

func TestMay(t *testing.T) {
	ok, cut := request{statuses: []int{200}}, request{cut: true}
	streamed := request{statuses: []int{200}, chunked: true, body: []byte("x")}
	for _, c := range []struct {
		q        *request
		status   int
		troubled bool
		want     bool
	}{
		{&ok, 200, false, true}, {&ok, 429, false, true}, {&ok, 502, false, false}, {&ok, 502, true, true},
		{&ok, 503, true, true}, {&ok, 503, false, false}, {&streamed, 503, false, true}, {&streamed, 502, false, false},
		{&ok, 500, true, false}, {&cut, 200, false, true}, {&cut, 502, false, false},
	} {
		if got := c.q.may(c.status, c.troubled); got != c.want {
			t.Errorf("%v, %d, troubled %t: %t", c.q, c.status, c.troubled, got)
		}
	}
}

// A fiftieth of bench chaos, with everything that happens in it.
func TestLittleChaos(t *testing.T) {
	rigtest.Build(t, "proxy")
	out, err := rigtest.Run(t, func(l *rig.Lab) { Run(l, []string{strconv.Itoa(exchangesLeast)}) })
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func agreeing() *counts {
	b := &counts{seen: 1005, seenHTTP2: 500, served: 900, proxy: rig.Metrics{
		`ratelimiter_requests_total{decision="forwarded"}`: 1000, `ratelimiter_requests_total{decision="rejected"}`: 100,
		`ratelimiter_responses_total{code="200"}`: 894, `ratelimiter_responses_total{code="101"}`: 1,
		`ratelimiter_responses_total{code="429"}`: 100, `ratelimiter_responses_total{code="502"}`: 94,
		`ratelimiter_responses_total{code="501"}`:                  1,
		`ratelimiter_upstream_errors_total{kind="eof"}`:            95,
		`ratelimiter_requests_by_protocol_total{protocol="http1"}`: 700,
		`ratelimiter_requests_by_protocol_total{protocol="h2c"}`:   400,
		"ratelimiter_requests_abandoned_total":                     10, "ratelimiter_upstream_retries_total": 5,
	}}
	t := &b.clients
	t.byStatus[101], t.byStatus[200], t.byStatus[429], t.byStatus[501], t.byStatus[502] = 1, 889, 100, 1, 94
	t.lost, t.cut = 20, 3
	return b
}

func TestAudit(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(b *counts)
		problem string
	}{
		{"counts that agree", func(*counts) {}, ""},
		{"one answer too many", func(b *counts) { b.clients.byStatus[429]++ },
			"status 429: the proxy counts 100, clients 101"},
		{"answers that nobody has", func(b *counts) { b.clients.byStatus[200] = 800 }, "status 200"},
		{"a strange status", func(b *counts) { b.proxy[`ratelimiter_responses_total{code="500"}`] = 1 },
			"1 answers with status 500"},
		{"a status that the proxy does not know of", func(b *counts) { b.clients.byStatus[503] = 1 },
			"status 503: the proxy counts 0, clients 1"},
		{"a decision without an end", func(b *counts) { b.proxy["ratelimiter_requests_abandoned_total"]-- }, "1100 decided"},
		{"a request from nowhere", func(b *counts) { b.seen++ }, "the target saw 1006"},
		{"requests that vanish", func(b *counts) { b.seen = 800 }, "the target saw 800"},
		{"two requests of one", func(b *counts) { b.malformed = 1 }, "not requests"},
		{"answers made up", func(b *counts) { b.served = 885 }, "886 whole answers"},
		{"a fault", func(b *counts) { b.proxy["ratelimiter_panics_total"] = 1 }, "1 faults"},
		{"HTTP/1.1 only", func(b *counts) { b.seenHTTP2 = 0 }, "both protocols"},
		{"no chaos", func(b *counts) { b.clients.lost = 0; b.clients.byStatus[200] = 894 }, "the run did not cover"},
	} {
		b := agreeing()
		c.change(b)
		var e result.Expectations
		b.audit(&e)
		resulttest.RequireMissed(t, c.name, &e, c.problem)
	}
}

func TestGrown(t *testing.T) {
	base := resources{Descriptors: 20, Goroutines: 15, RSS: 30 << 20}
	more := base
	more.RSS = 77 << 20 // exactly what is allowed
	if got := more.grown(base); len(got) > 0 {
		t.Errorf("nothing has grown: %v", got)
	}
	more = resources{21, 16, 1, 1, 1, 78 << 20}
	if got := more.grown(base); len(got) != 6 {
		t.Errorf("all six have grown: %v", got)
	}
}
