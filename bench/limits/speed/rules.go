package speed

import (
	"fmt"
	"math"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	rulesRounds = 7 // pairs of runs
	// rulesRatioMax bounds the cost of ten rules, two of which match, relative to the global
	// limit alone.
	rulesRatioMax = 1.10
)

// ten is a file of ten rules with all kinds of matches and keys. Only those in matching apply to
// the requests of wrk. Their limits are never reached, like the global one.
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

// Rules compares the proxy's CPU per request with ten rules, two of which match, and with the
// global limit alone. Runs take turns and last 3 seconds, or the number in args. It fails if rules
// cost too much.
func Rules(l *rig.Lab, args []string) {
	seconds := rig.NumberArg{What: "seconds of a run", Usual: 3, Least: 1, Most: 60}.Read(args)
	needs("wrk")
	(&lab{Lab: l, effort: effort{rulesRounds, time.Duration(seconds) * time.Second,
		[]func(*lab){(*lab).tenRules}}}).run()
}

// tenRules compares ten rules with none.
func (l *lab) tenRules() {
	l.ownTarget("EVENT_LOOPS=1")
	c := comparison{sides: []side{weir("global limit alone"), weir("and ten rules, two match", l.Rules(ten))},
		warmUp: true, show: tenBesideNone}
	for i := range c.sides {
		c.sides[i].header = "X-Partner: acme"
	}
	l.Note("%d pairs of runs of %v, one loop, %d connections kept alive, GATE=off, all requests are admitted; median, "+
		"minimum and maximum", l.rounds, l.span, connections)
	c.play(l)
}

// tenBesideNone checks that the rules were applied as expected, and judges.
func tenBesideNone(l *lab, all []rig.ComparedProgram, runs [][]rig.Measurement) {
	var names []string
	for i, rules := range [][]string{nil, matching} {
		rig.Check(decisionsOf(l.Scrape(all[i].Addr), rules).problem(all[i].Name, (1+l.rounds)*underWay))
		names = append(names, all[i].Name)
	}
	l.judgeRules(names, runs)
}

// decisions are counts of a proxy.
type decisions struct {
	requests float64
	failed   float64            // refused, or not answered by the target
	all      float64            // decisions of all rules
	rules    map[string]float64 // decisions of the rules that match
}

func decisionsOf(m rig.Metrics, rules []string) decisions {
	d := decisions{requests: m.Sum("ratelimiter_requests_total"), all: m.Sum("ratelimiter_rule_decisions_total"),
		rules: make(map[string]float64)}
	d.failed = d.requests - m.Sum("ratelimiter_requests_total", `decision="forwarded"`) +
		m.Sum("ratelimiter_upstream_errors_total") + m.Sum("ratelimiter_upstream_shed_total")
	for _, id := range rules {
		d.rules[id] = m.Sum("ratelimiter_rule_decisions_total", fmt.Sprintf("rule=%q", id))
	}
	return d
}

// underWay bounds the requests that are decided and not finished at the end of a run: one per
// connection.
const underWay = connections

// problem returns an error if the runs are invalid: each request, except for some that are not
// finished, must have been admitted by the global rule and the matching ones, and by no others.
func (d decisions) problem(name string, some int) error {
	if d.requests < 1 || d.failed > 0 {
		return fmt.Errorf("%s: of %.0f requests %.0f were refused or failed, so the comparison is not valid", name,
			d.requests, d.failed)
	}
	for id, n := range d.rules {
		if math.Abs(n-d.requests) > float64(some) {
			return fmt.Errorf("%s: rule %s decided %.0f of %.0f requests, but should match all", name, id, n, d.requests)
		}
	}
	if want := d.requests * float64(1+len(d.rules)); math.Abs(d.all-want) > float64(some*(1+len(d.rules))) {
		return fmt.Errorf("%s: there were %.0f decisions of rules about %.0f requests, expected %.0f", name, d.all,
			d.requests, want)
	}
	return nil
}

func (l *lab) judgeRules(names []string, runs [][]rig.Measurement) {
	one, all := runs[0], runs[1]
	l.Head("", names[0], names[1], "ratio")
	l.pair("CPU µs per request", 2, rig.CPUPerRequest, one, all)
	l.pair("requests/s", 0, rig.PerSecond, one, all)
	l.AtMost("CPU of ten rules, relative to the global limit alone", result.RatioOf(all, one, rig.CPUPerRequest).Median,
		rulesRatioMax)
	l.Conclude(fmt.Sprintf("at most %.2f times the CPU of the global limit alone.", rulesRatioMax), nil)
}
