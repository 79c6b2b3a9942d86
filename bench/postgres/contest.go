package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/bench/rig"
	"weir/internal/freeport"
)

// The load of each instance, uncompressed: 29,850 requests of one user in ten minutes.
const (
	period     = 2 * time.Second
	instances  = 2
	calm       = 3 * time.Minute // at calmRate, then rising to rampRate for as long
	storm      = 4 * time.Minute // at stormRate
	calmRate   = 5
	rampRate   = 50
	stormRate  = 100
	rampSteps  = 36
	boundMost  = int((2*calm + storm) / period)
	boundLeast = boundMost * 95 / 100
)

// profile returns the profile of that load, compressed in time.
func profile(compress float64) string {
	var steps []string
	add := func(rate float64, d time.Duration) {
		steps = append(steps, fmt.Sprintf(`{"rps":%g,"duration":%.6f}`, rate*compress, d.Seconds()/compress))
	}
	add(calmRate, calm)
	for i := range rampSteps {
		add(calmRate+(rampRate-calmRate)*(float64(i)+0.5)/rampSteps, calm/rampSteps)
	}
	add(stormRate, storm)
	return `{"type":"steps","params":{"steps":[` + strings.Join(steps, ",") + `]}}`
}

// A side is one way to limit: a PostgreSQL and instances.
type side struct {
	*rig.Postgres
	name      string
	addrs     []string // to which requests are sent
	own       []string // of the own endpoints of Weir's proxies
	path      string   // of requests
	dir       string   // of rules; empty for none
	processes []*rig.Process
}

// A contest describes how sides are set up.
type contest struct {
	period time.Duration
	skew   time.Duration // by which the clock of the last instance is ahead
	// connections is the number of connections of each recipe instance; 0 for
	// recipeConnections.
	connections int
	rules       string // of Weir; empty: one request per path and period
	apart       bool   // each proxy of Weir keeps limits in its own memory
	checks      bool   // the proxies of Weir forward nothing and answer /check
}

// skewOf returns by how much the clock of an instance is ahead.
func (c *contest) skewOf(instance int) time.Duration {
	if instance == instances-1 {
		return c.skew
	}
	return 0
}

// begin starts a side. If it fails, s holds what was started.
func (c *contest) begin(ctx context.Context, name string) (s *side, err error) {
	s = &side{name: name}
	if s.Postgres, err = rig.StartPostgres(ctx, "max_connections=200", "log_min_messages=log", "log_lock_waits=on"); err != nil {
		return s, err
	}
	if way := recipeNamed(name); way != nil {
		if _, err := s.ask(ctx, way.schema); err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
		s.path = "/items/user"
		return s, c.recipe(ctx, s)
	}
	return s, c.weir(ctx, s)
}

// weir starts the proxies and the target behind them, if they forward.
func (c *contest) weir(ctx context.Context, s *side) (err error) {
	s.path = "/api/test"
	if s.dir, err = os.MkdirTemp("", "weir-rules-"); err != nil {
		return err
	}
	rules := filepath.Join(s.dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(cmp.Or(c.rules, fmt.Sprintf("rules:\n- {id: user, key: [path], limit: {algorithm: gcra, limit: 1, window: %.6f, burst: 1}}\n", c.period.Seconds()))), 0o600); err != nil {
		return err
	}
	env := []string{"RULES_FILE=" + rules, "RATE_LIMIT_ALGORITHM=off", "EVENT_LOOPS=1"}
	if !c.apart {
		env = append(env, "POSTGRES_URL="+s.URL(), "POSTGRES_TIMEOUT=1s")
	}
	if c.checks {
		return s.checkers(ctx, env)
	}
	target, addr, err := rig.StartTargetAt(ctx, nil)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, target)
	env = append(env, "TARGET_URL=http://"+addr, "GATE=off")
	for i := range instances {
		start := rig.StartProxy
		if skew := c.skewOf(i); skew > 0 {
			start = func(ctx context.Context, env []string) (*rig.Process, string, error) {
				return rig.StartSkewed(ctx, skew, env)
			}
		}
		p, proxy, err := start(ctx, env)
		if err != nil {
			return err
		}
		s.processes, s.addrs, s.own = append(s.processes, p), append(s.addrs, proxy), append(s.own, proxy)
	}
	return nil
}

// checkers starts proxies that answer /check.
func (s *side) checkers(ctx context.Context, env []string) error {
	s.path = "/check/path" + s.path
	for range instances {
		m, err := rig.StartMaster(ctx, env...)
		if err != nil {
			return err
		}
		s.processes, s.addrs, s.own = append(s.processes, m.Process), append(s.addrs, m.Addr), append(s.own, m.Own)
	}
	return nil
}

// recipe starts the instances of a recipe service.
func (c *contest) recipe(ctx context.Context, s *side) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i := range instances {
		addr, err := freeport.Addr()
		if err != nil {
			return err
		}
		p, err := rig.StartPeer(ctx, s.name, addr, self, ServiceName, s.name, addr, s.URL(), strconv.Itoa(cmp.Or(c.connections, recipeConnections)), c.period.String(), c.skewOf(i).String())
		if err != nil {
			return err
		}
		s.processes, s.addrs = append(s.processes, p), append(s.addrs, addr)
	}
	return nil
}

func (s *side) end() (err error) {
	for _, p := range s.processes {
		if p.Foreign { // its exit status does not matter
			p.Kill()
			continue
		}
		err = errors.Join(err, p.Stop())
	}
	if s.Postgres != nil {
		s.Postgres.End()
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// ask runs SQL in the side's database and returns the first value of the last result.
func (s *side) ask(ctx context.Context, sql string) (string, error) {
	c, err := pgconn.Connect(ctx, s.URL())
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 || len(results[len(results)-1].Rows) == 0 {
		return "", err
	}
	return string(results[len(results)-1].Rows[0][0]), nil
}

// A cost is the cost to a side's PostgreSQL.
type cost struct {
	cpu             time.Duration
	deadlocks, dead int64
	bytes           int64
}

// spent reads the cost so far.
func (s *side) spent(ctx context.Context) (c cost, err error) {
	const tables = `FROM pg_stat_user_tables WHERE relname IN ('limits', 'keys')`
	for _, q := range []struct {
		dst *int64
		sql string
	}{
		{&c.deadlocks, `SELECT coalesce(sum(deadlocks), 0)::int8 FROM pg_stat_database`},
		{&c.dead, `SELECT coalesce(sum(n_dead_tup), 0)::int8 ` + tables},
		{&c.bytes, `SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::int8 ` + tables},
	} {
		text, err := s.ask(ctx, q.sql)
		if err != nil {
			return c, err
		}
		if *q.dst, err = strconv.ParseInt(text, 10, 64); err != nil {
			return c, err
		}
	}
	c.cpu, err = rig.CPU(s.Pid())
	return c, err
}

// An outcome is the outcome of a load on a side.
type outcome struct {
	name     string
	loads    []*rig.Loaded
	admitted uint64
	refused  uint64
	failed   uint64
	before   cost
	after    cost
}

// play loads all instances of a side at the same time.
func (c *contest) play(ctx context.Context, name string, compress float64) (o *outcome, err error) {
	s, err := c.begin(ctx, name)
	defer func() { err = errors.Join(err, s.end()) }()
	if err != nil {
		return nil, err
	}
	o = &outcome{name: name}
	if o.before, err = s.spent(ctx); err != nil {
		return nil, err
	}
	loads := make([]rig.Load, len(s.addrs))
	for i, addr := range s.addrs {
		loads[i] = rig.Load{URL: "http://" + addr + s.path, For: time.Duration(float64(2*calm+storm) / compress), Profile: profile(compress), Seed: int64(i + 1)}
	}
	if o.loads, err = rig.RunAll(ctx, loads...); err != nil {
		return nil, err
	}
	for _, l := range o.loads {
		o.admitted, o.refused = o.admitted+l.Success, o.refused+l.RateLimited
		o.failed += l.Sent - l.Success - l.RateLimited
	}
	o.after, err = s.spent(ctx)
	return o, err
}

// perDecision returns PostgreSQL's CPU time per answer in µs.
func (o *outcome) perDecision() float64 {
	answered := o.admitted + o.refused
	if answered == 0 {
		return math.NaN()
	}
	return float64((o.after.cpu - o.before.cpu).Microseconds()) / float64(answered)
}
