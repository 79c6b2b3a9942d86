package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

const (
	goalConnections = 64 // of wrk, to each proxy
	goalTime        = 8 * time.Second
	goalKeys        = 100_000
	plenty          = 1_000_000_000 // permits, which never run out
)

// A speed is how fast a way decides, and what that costs PostgreSQL.
type speed struct {
	perSecond  float64
	cpu        float64 // µs each
	statements float64 // each; NaN: not counted
	p99        float64 // in seconds; NaN: not known
	refused    float64 // share of requests, or failed
}

// known writes a figure, or a dash for one that was not measured.
func known(format string, figure float64) string {
	if math.IsNaN(figure) {
		return "–"
	}
	return fmt.Sprintf(format, figure)
}

// goals measures how fast limits are decided that admit all.
func (l *lab) goals(ctx context.Context) error {
	fmt.Fprintf(l.Out, "\n## Speed\n\nLimits that admit all; two instances, each driven by wrk with %d connections for %v. The proxies of Weir have a target behind them. nowait has %d connections to PostgreSQL, half of them in each instance, and refuses while somebody else is being admitted.\n\n", goalConnections, goalTime, recipeConnections)
	t := report.NewTable("load | decisions/s | refused | PostgreSQL's CPU µs per decision | statements per decision | p99 ms of the store")
	var found [3]speed
	for i, row := range []struct {
		name    string
		measure func(ctx context.Context) (speed, error)
	}{
		{"weir, one key", func(ctx context.Context) (speed, error) { return drive(ctx, weirSide, 1) }},
		{fmt.Sprintf("weir, %d keys", goalKeys), func(ctx context.Context) (speed, error) { return drive(ctx, weirSide, goalKeys) }},
		{"nowait, one key", func(ctx context.Context) (speed, error) { return drive(ctx, "nowait", 1) }},
	} {
		fmt.Fprintf(l.Out, "  ▶ %s\n", row.name)
		s, err := row.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		found[i] = s
		t.Add("%s | %.0f | %s | %.1f | %s | %s", row.name, s.perSecond, known("%.0f %%", 100*s.refused), s.cpu, known("%.3f", s.statements), known("%.2f", 1e3*s.p99))
		l.Never(row.name != "nowait, one key" && s.refused > 0, "%s: %.2f %% of the requests failed", row.name, 100*s.refused)
	}
	hot, many, nowait := found[0], found[1], found[2]
	fmt.Fprintf(l.Out, "\n%s", t)
	l.AtLeast("one key: decisions per second", hot.perSecond, 40_000)
	l.AtMost("one key: PostgreSQL's CPU µs per decision", hot.cpu, 8)
	l.AtMost("one key: p99 of the store in ms", 1e3*hot.p99, 10)
	l.AtMost("one key: statements per decision", hot.statements, 0.2)
	l.AtLeast("many keys: decisions per second", many.perSecond, 12_000)
	l.AtMost("many keys: PostgreSQL's CPU µs per decision", many.cpu, 40)
	l.AtLeast("one key: decisions, of nowait's", hot.perSecond/nowait.perSecond, 5)
	l.AtMost("one key: CPU per decision, of nowait's", hot.cpu/nowait.cpu, 0.2)
	return nil
}

// drive has wrk ask the instances of a side about that many keys, drawn at random; of recipe
// services about one.
func drive(ctx context.Context, name string, keys int) (r speed, err error) {
	c := &contest{connections: recipeConnections / instances, rules: fmt.Sprintf("rules:\n- {id: user, key: [\"header:X-User\"], limit: {algorithm: token, capacity: %d, fillRate: 1000000}}\n", plenty)}
	s, err := c.begin(ctx, name)
	defer func() { err = errors.Join(err, s.end()) }()
	if err != nil {
		return r, err
	}
	before, err := s.counted(ctx)
	if err != nil {
		return r, err
	}
	began := time.Now()
	requests, refused, err := s.flood(ctx, keys)
	if err != nil {
		return r, err
	}
	took := time.Since(began).Seconds()
	after, err := s.counted(ctx)
	decisions := requests
	r = speed{refused: refused / requests, statements: math.NaN(), p99: math.NaN()}
	if name == weirSide {
		decisions = after.decisions - before.decisions
		r.statements, r.p99 = (after.commands-before.commands)/decisions, after.p99
	}
	r.perSecond, r.cpu = decisions/took, float64((after.cpu-before.cpu).Microseconds())/decisions
	return r, err
}

// flood has wrk ask each instance for goalTime, and returns how many requests there were and
// how many of them were refused.
func (s *side) flood(ctx context.Context, keys int) (requests, refused float64, err error) {
	dir, err := os.MkdirTemp("", "weir-script-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "keys.lua")
	lua := fmt.Sprintf("request = function() return wrk.format(nil, nil, {[\"X-User\"] = tostring(math.random(%d))}) end\n", keys)
	if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
		return 0, 0, err
	}
	runs, failed := make([]rig.WrkRun, len(s.addrs)), make([]error, len(s.addrs))
	var all sync.WaitGroup
	for i, addr := range s.addrs {
		all.Go(func() {
			runs[i], failed[i] = rig.Wrk{URL: "http://" + addr + s.path, Connections: goalConnections, For: goalTime, Script: script}.Run(ctx)
		})
	}
	all.Wait()
	for _, run := range runs {
		requests, refused = requests+run.Requests, refused+float64(run.Failed)
	}
	return requests, refused, errors.Join(failed...)
}

// A count is what proxies and PostgreSQL have counted so far.
type count struct {
	decisions, commands float64
	p99                 float64 // the worst of the proxies', in seconds, of batches
	cpu                 time.Duration
}

// counted reads them; services have none.
func (s *side) counted(ctx context.Context) (c count, err error) {
	addrs := s.addrs
	if s.name != weirSide {
		addrs = nil
	}
	for _, addr := range addrs {
		samples, err := rig.Scrape(ctx, addr)
		if err != nil {
			return c, err
		}
		c.decisions += samples.Sum("ratelimiter_store_decisions_total")
		c.commands += samples.Sum("ratelimiter_store_commands_total")
		c.p99 = max(c.p99, samples.Quantile(0.99, nil, "ratelimiter_postgres_request_duration_seconds"))
	}
	c.cpu, err = rig.CPU(s.Pid())
	return c, err
}
