// Package rules measures what rules cost: the proxy's CPU per request with ten
// rules of which two match, against that with the global limit alone.
package rules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"weir/bench/result"
	"weir/bench/rig"
)

const (
	rounds      = 7 // pairs of runs
	connections = 64
	warmUp      = time.Second
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

// A contestant is a proxy under load.
type contestant struct {
	name    string
	addr    string
	process *rig.Process
	rules   []string // that apply to each request, besides the global one
}

// Run lets the two take turns, for 3 seconds each or as many as args say, and
// prints a table. The error says that rules cost more than they may.
func Run(ctx context.Context, args []string, out io.Writer) (err error) {
	seconds, err := rig.Number{What: "seconds of a run", Usual: 3, Least: 1, Most: 60}.Read(args)
	if err != nil {
		return err
	}
	span := time.Duration(seconds) * time.Second
	if _, err := exec.LookPath("wrk"); err != nil {
		return fmt.Errorf("wrk is not installed, so there is nothing to make load with; make bench-setup installs it: %w", result.ErrNotKept)
	}
	target, targetAddr, err := rig.StartTargetAt(ctx, []string{"EVENT_LOOPS=1"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Stop()) }()
	dir, err := os.MkdirTemp("", "weir-rules-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(ten), 0o600); err != nil {
		return err
	}
	one, err := startProxy(ctx, contestant{name: "global limit alone"}, targetAddr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.process.Stop()) }()
	all, err := startProxy(ctx, contestant{name: "and ten rules, two match", rules: matching}, targetAddr, "RULES_FILE="+file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.process.Stop()) }()
	fmt.Fprintf(out, "%d pairs of runs of %v, one loop, %d connections kept alive, GATE=off, all is admitted; median and ends\n\n", rounds, span, connections)
	pairs, err := play(ctx, one, all, span)
	if err != nil {
		return err
	}
	return judge(out, one.name, all.name, pairs)
}

func startProxy(ctx context.Context, c contestant, target string, env ...string) (contestant, error) {
	var err error
	c.process, c.addr, err = rig.StartProxy(ctx, append(env, "TARGET_URL=http://"+target, "GATE=off", "EVENT_LOOPS=1",
		"RATE_LIMIT_LIMIT=1000000000", "RATE_LIMIT_WINDOW=3600"))
	return c, err
}

// play has the two take turns. Who begins changes from pair to pair, so that what
// gets slower or faster with time does so for both.
func play(ctx context.Context, one, all contestant, span time.Duration) (pairs []pair, err error) {
	for _, c := range []contestant{one, all} {
		if _, err := c.run(ctx, warmUp); err != nil {
			return nil, err
		}
	}
	for i := range rounds {
		var p pair
		sides := []struct {
			c  contestant
			to *run
		}{{one, &p.one}, {all, &p.all}}
		if i%2 == 1 {
			sides[0], sides[1] = sides[1], sides[0]
		}
		for _, side := range sides {
			if *side.to, err = side.c.run(ctx, span); err != nil {
				return nil, err
			}
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// run drives the proxy as fast as it goes. The error says that it did not do what
// it is measured for.
func (c contestant) run(ctx context.Context, span time.Duration) (run, error) {
	before, err := rig.Scrape(ctx, c.addr)
	if err != nil {
		return run{}, err
	}
	_, used, err := rig.Wrk{URL: "http://" + c.addr + "/api/test", Connections: connections, For: span, Header: "X-Partner: acme"}.Against(ctx, c.process.Pid())
	if err != nil {
		return run{}, err
	}
	after, err := rig.Scrape(ctx, c.addr)
	if err != nil {
		return run{}, err
	}
	r := run{cpu: used, span: span, rules: make(map[string]float64)}
	grown := func(family string, labels ...string) float64 {
		return after.Sum(family, labels...) - before.Sum(family, labels...)
	}
	r.requests = grown("ratelimiter_requests_total")
	r.failed = r.requests - grown("ratelimiter_requests_total", `decision="forwarded"`) + grown("ratelimiter_upstream_errors_total")
	r.judged = grown("ratelimiter_rule_decisions_total")
	for _, id := range c.rules {
		r.rules[id] = grown("ratelimiter_rule_decisions_total", fmt.Sprintf("rule=%q", id))
	}
	return r, r.problem(c.name)
}
