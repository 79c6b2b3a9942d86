package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

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
	failed     int
}

// known writes a figure, or a dash for one that was not measured.
func known(format string, figure float64) string {
	if math.IsNaN(figure) {
		return "–"
	}
	return fmt.Sprintf(format, figure)
}

// goals measures how fast limits are decided that admit all.
func goals(ctx context.Context, out io.Writer, e *report.Expectations) error {
	fmt.Fprintf(out, "\n## Speed\n\nAll is admitted; two proxies, each driven by wrk with %d connections for %v; nowait with %d sessions without any service.\n\n", goalConnections, goalTime, folkConnections)
	t := report.NewTable("load | decisions/s | PostgreSQL's CPU µs per decision | statements per decision | p99 ms of the store")
	var found [3]speed
	for i, row := range []struct {
		name    string
		measure func(ctx context.Context) (speed, error)
	}{
		{"weir, one key", func(ctx context.Context) (speed, error) { return drive(ctx, 1) }},
		{fmt.Sprintf("weir, %d keys", goalKeys), func(ctx context.Context) (speed, error) { return drive(ctx, goalKeys) }},
		{"nowait, one key", driveNowait},
	} {
		fmt.Fprintf(out, "  ▶ %s\n", row.name)
		s, err := row.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		found[i] = s
		t.Add("%s | %.0f | %.1f | %s | %s", row.name, s.perSecond, s.cpu, known("%.3f", s.statements), known("%.2f", 1e3*s.p99))
		e.Never(s.failed > 0, "%s: %d requests failed", row.name, s.failed)
	}
	hot, many, nowait := found[0], found[1], found[2]
	fmt.Fprintf(out, "\n%s", t)
	e.AtLeast("one key: decisions per second", hot.perSecond, 40_000)
	e.AtMost("one key: PostgreSQL's CPU µs per decision", hot.cpu, 8)
	e.AtMost("one key: p99 of the store in ms", 1e3*hot.p99, 10)
	e.AtMost("one key: statements per decision", hot.statements, 0.2)
	e.AtLeast("many keys: decisions per second", many.perSecond, 12_000)
	e.AtMost("many keys: PostgreSQL's CPU µs per decision", many.cpu, 40)
	e.AtLeast("one key: decisions, of nowait's", hot.perSecond/nowait.perSecond, 5)
	e.AtMost("one key: CPU per decision, of nowait's", hot.cpu/nowait.cpu, 0.2)
	return nil
}

// drive has wrk ask two proxies about that many keys, drawn at random.
func drive(ctx context.Context, keys int) (r speed, err error) {
	c := &contest{rules: fmt.Sprintf("rules:\n- {id: user, key: [\"header:X-User\"], limit: {algorithm: token, capacity: %d, fillRate: 1000000}}\n", plenty)}
	s, err := c.begin(ctx, weirSide)
	defer func() { err = errors.Join(err, s.end()) }()
	if err != nil {
		return r, err
	}
	script := filepath.Join(s.dir, "keys.lua")
	lua := fmt.Sprintf("request = function() return wrk.format(nil, nil, {[\"X-User\"] = tostring(math.random(%d))}) end\n", keys)
	if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
		return r, err
	}
	before, err := s.counted(ctx)
	if err != nil {
		return r, err
	}
	runs, failed := make([]rig.WrkRun, len(s.addrs)), make([]error, len(s.addrs))
	began := time.Now()
	var all sync.WaitGroup
	for i, addr := range s.addrs {
		all.Go(func() {
			runs[i], failed[i] = rig.Wrk{URL: "http://" + addr + s.path, Connections: goalConnections, For: goalTime, Script: script}.Run(ctx)
		})
	}
	all.Wait()
	took := time.Since(began).Seconds()
	if err := errors.Join(failed...); err != nil {
		return r, err
	}
	after, err := s.counted(ctx)
	if err != nil {
		return r, err
	}
	for _, run := range runs {
		r.failed += run.Failed
	}
	decisions := after.decisions - before.decisions
	r.perSecond, r.cpu = decisions/took, float64((after.cpu-before.cpu).Microseconds())/decisions
	r.statements, r.p99 = (after.commands-before.commands)/decisions, after.p99
	return r, nil
}

// A count is what proxies and PostgreSQL have counted so far.
type count struct {
	decisions, commands float64
	p99                 float64 // the worst of the proxies', in seconds, of batches
	cpu                 time.Duration
}

func (s *side) counted(ctx context.Context) (c count, err error) {
	for _, addr := range s.addrs {
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

// driveNowait has sessions decide as the nowait services do, without any HTTP.
func driveNowait(ctx context.Context) (r speed, err error) {
	s := &side{name: "nowait"}
	if s.Postgres, err = rig.StartPostgres(ctx); err != nil {
		return r, err
	}
	defer s.Postgres.End()
	way := folkNamed(s.name)
	if _, err := s.ask(ctx, way.schema); err != nil {
		return r, err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	decided, failed := 0, make([]error, folkConnections)
	before, err := rig.CPU(s.Pid())
	if err != nil {
		return r, err
	}
	conns := make([]*pgconn.PgConn, folkConnections)
	for i := range conns {
		if conns[i], err = pgconn.Connect(ctx, s.URL()); err != nil {
			return r, err
		}
		defer conns[i].Close(ctx)
	}
	began := time.Now()
	for i, c := range conns {
		all.Go(func() {
			n := 0
			for time.Since(began) < goalTime && failed[i] == nil {
				_, failed[i] = way.admit(ctx, c, ask{"user", time.Now().UnixMicro(), 0})
				n++
			}
			mu.Lock()
			decided += n
			mu.Unlock()
		})
	}
	all.Wait()
	took := time.Since(began).Seconds()
	after, err := rig.CPU(s.Pid())
	return speed{float64(decided) / took, float64((after - before).Microseconds()) / float64(decided), math.NaN(), math.NaN(), 0}, errors.Join(append(failed, err)...)
}
