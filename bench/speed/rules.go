package speed

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weir/bench/report"
	"weir/bench/result"
	"weir/bench/rig"
)

const (
	rulesRounds = 7 // pairs of runs
	warmUp      = time.Second
	// rulesRatioMax is the most that ten rules of which two match may cost, as a multiple
	// of the global limit alone.
	rulesRatioMax = 1.10
)

// ten are the rules: of all kinds of matches and keys, and for requests such as
// wrk sends here only those that are named matching apply. Their limits let
// everything through, as the global one does.
const ten = `rules:
- {id: per-client, match: {path: /api/**}, key: [ip], limit: {algorithm: fixed, limit: 1000000000, window: 3600}}
- {id: per-partner, match: {methods: [GET, POST]}, key: ["header:X-Partner"], limit: {algorithm: fixed, limit: 1000000000, window: 3600}}
- {id: writes, match: {methods: [POST, PUT]}, key: [ip], limit: {algorithm: fixed, limit: 100, window: 60}, cost: 5}
- {id: login, match: {path: /login}, key: [ip], limit: {algorithm: sliding, limit: 5, window: 60}}
- {id: orders, match: {path: /shop/*/orders/**}, key: ["cookie:session"], limit: {algorithm: token, capacity: 50, fillRate: 5}}
- {id: admin, match: {host: admin.example.com}, key: [global], limit: {algorithm: fixed, limit: 10, window: 1}}
- {id: free, match: {headers: {X-Plan: free}}, key: ["header:X-Partner"], limit: {algorithm: gcra, limit: 1, window: 3}}
- {id: search, match: {path: /search/**, methods: [GET]}, key: ["query:q"], limit: {algorithm: fixed, limit: 100, window: 60}}
- {id: export, match: {path: /export/**}, key: [global], limit: {algorithm: fixed, limit: 2, window: 1}}
- {id: uploads, match: {path: /files/**, methods: [PUT]}, key: [ip/24], limit: {algorithm: token, capacity: 10, fillRate: 1}}
`

var matching = []string{"per-client", "per-partner"}

// Rules measures what rules cost: the proxy's CPU per request with ten of which two
// match, against that with the global limit alone. The two take turns, for 3 seconds
// each or as many as args say. The error says that rules cost more than they may.
func Rules(ctx context.Context, args []string, out io.Writer) error {
	seconds, err := rig.Number{What: "seconds of a run", Usual: 3, Least: 1, Most: 60}.Read(args)
	if err != nil {
		return err
	}
	if err := missingTools("wrk"); err != nil {
		return fmt.Errorf("%w: %w", err, result.ErrNotKept)
	}
	l, err := newLab(ctx, out, effort{rounds: rulesRounds, span: time.Duration(seconds) * time.Second})
	if err != nil {
		return err
	}
	defer l.end()
	if _, err := l.ownTarget("EVENT_LOOPS=1"); err != nil {
		return err
	}
	file := filepath.Join(l.dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(ten), 0o600); err != nil {
		return err
	}
	sides := []side{weir("global limit alone"), weir("and ten rules, two match", "RULES_FILE="+file)}
	for i := range sides {
		sides[i].header = "X-Partner: acme"
	}
	all, err := l.open(sides...)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d pairs of runs of %v, one loop, %d connections kept alive, GATE=off, all is admitted; median and ends\n\n", l.rounds, l.span, connections)
	runs, err := l.pairs([]ruled{{all[0], nil}, {all[1], matching}})
	if err != nil {
		return err
	}
	return l.judgeRules([]string{sides[0].name, sides[1].name}, runs)
}

// A ruled contestant is a proxy and the rules that apply to each request, besides the
// global one.
type ruled struct {
	contestant
	rules []string
}

// pairs lets the two take turns. Who begins changes from pair to pair, so that what
// gets slower or faster with time does so for both.
func (l *lab) pairs(sides []ruled) ([][]sample, error) {
	for _, c := range sides {
		if _, err := l.checked(c, warmUp); err != nil {
			return nil, err
		}
	}
	runs := make([][]sample, len(sides))
	order := []int{0, 1}
	for range l.rounds {
		for _, i := range order {
			s, err := l.checked(sides[i], l.span)
			if err != nil {
				return nil, err
			}
			runs[i] = append(runs[i], s)
		}
		slices.Reverse(order)
	}
	return runs, nil
}

// checked is sample of a proxy that did what it is measured for.
func (l *lab) checked(c ruled, span time.Duration) (sample, error) {
	before, err := rig.Scrape(l.ctx, c.addr)
	if err != nil {
		return sample{}, err
	}
	s, err := l.sample(&c.contestant, connections, span)
	if err != nil {
		return s, err
	}
	after, err := rig.Scrape(l.ctx, c.addr)
	if err != nil {
		return s, err
	}
	return s, decisionsOf(before, after, c.rules).problem(c.name)
}

// decisions are what a proxy counted in a run.
type decisions struct {
	requests float64
	failed   float64            // refused, or not answered by the target
	all      float64            // decisions of all rules
	rules    map[string]float64 // decisions of the rules that match
}

func decisionsOf(before, after rig.Samples, rules []string) decisions {
	d := decisions{requests: after.Since(before, "ratelimiter_requests_total"), all: after.Since(before, "ratelimiter_rule_decisions_total"), rules: make(map[string]float64)}
	d.failed = d.requests - after.Since(before, "ratelimiter_requests_total", `decision="forwarded"`) + after.Since(before, "ratelimiter_upstream_errors_total")
	for _, id := range rules {
		d.rules[id] = after.Since(before, "ratelimiter_rule_decisions_total", fmt.Sprintf("rule=%q", id))
	}
	return d
}

// underWay is how many requests may have been decided and not been over at the
// beginning and the end of a run: one of each connection.
const underWay = 2 * connections

// problem says why a run is worth nothing: each request must have been admitted
// by the global rule and those that match, and by no other.
func (d decisions) problem(name string) error {
	if d.requests < 1 || d.failed > 0 {
		return fmt.Errorf("%s: of %.0f requests %.0f were refused or failed, which makes the comparison worthless", name, d.requests, d.failed)
	}
	for id, n := range d.rules {
		if math.Abs(n-d.requests) > underWay {
			return fmt.Errorf("%s: rule %s decided %.0f of %.0f requests, it should match all", name, id, n, d.requests)
		}
	}
	if want := d.requests * float64(1+len(d.rules)); math.Abs(d.all-want) > underWay*float64(1+len(d.rules)) {
		return fmt.Errorf("%s: there were %.0f decisions of rules about %.0f requests, it should be %.0f", name, d.all, d.requests, want)
	}
	return nil
}

// judgeRules prints the table. The error says that the rules cost too much.
func (l *lab) judgeRules(names []string, runs [][]sample) error {
	one, all := runs[0], runs[1]
	l.table("", names[0], names[1], "ratio")
	l.row("CPU µs per request", medianOf(one, 2, cpuEach), medianOf(all, 2, cpuEach), ratioOf(all, one, cpuEach))
	l.row("requests/s", medianOf(one, 0, perSec), medianOf(all, 0, perSec), ratioOf(all, one, perSec))
	var e report.Expectations
	e.AtMost("CPU of ten rules by that of the global limit alone", report.RatioOf(all, one, cpuEach).Median, rulesRatioMax)
	return e.Conclude(l.out, fmt.Sprintf("at most %.2f times the CPU of the global limit alone.", rulesRatioMax), nil)
}
