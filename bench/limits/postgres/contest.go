package postgres

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/bench/lab/rig"
	"weir/internal/test/freeport"
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

// steps returns that load, compressed in time.
func steps(compress float64) (list []rig.RateStep) {
	add := func(rate float64, d time.Duration) {
		list = append(list, rig.RateStep{For: scaled(d, compress), Rate: rate * compress})
	}
	add(calmRate, calm)
	for i := range rampSteps {
		add(calmRate+(rampRate-calmRate)*(float64(i)+0.5)/rampSteps, calm/rampSteps)
	}
	add(stormRate, storm)
	return list
}

// A side is one way to limit: a PostgreSQL and instances.
type side struct {
	*rig.Postgres
	lab   *rig.Lab
	name  string
	addrs []string // to which requests are sent
	own   []string // of the own endpoints of Weir's proxies
	path  string   // of requests
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

func (c *contest) begin(l *rig.Lab, name string) *side {
	s := &side{Postgres: l.Postgres("max_connections=200", "log_min_messages=log", "log_lock_waits=on"), lab: l,
		name: name}
	if way := recipeNamed(name); way != nil {
		s.ask(way.schema)
		s.path = "/items/user"
		c.recipe(s)
	} else {
		s.path = "/api/test"
		c.weir(s)
	}
	return s
}

// weir starts the proxies and the target behind them, if they forward.
func (c *contest) weir(s *side) {
	l := s.lab
	rules := cmp.Or(c.rules, fmt.Sprintf(
		"rules:\n- {id: user, key: [path], limit: {algorithm: gcra, limit: 1, window: %.6f, burst: 1}}\n", c.period.Seconds()))
	env := []string{l.Rules(rules), "RATE_LIMIT_ALGORITHM=off", "EVENT_LOOPS=1"}
	if !c.apart {
		env = append(env, "POSTGRES_URL="+s.URL(), "POSTGRES_TIMEOUT=1s")
	}
	if c.checks {
		s.path = "/check/path" + s.path
		for range instances {
			m := l.DecisionServer(env...)
			s.addrs, s.own = append(s.addrs, m.Addr), append(s.own, m.Own)
		}
		return
	}
	_, target := l.Start("target")
	env = append(env, "TARGET_URL=http://"+target, "GATE=off")
	for i := range instances {
		_, addr := l.StartProxy(c.skewOf(i), env...)
		s.addrs, s.own = append(s.addrs, addr), append(s.own, addr)
	}
}

func (c *contest) recipe(s *side) {
	for i := range instances {
		addr := rig.Must(freeport.Addr())
		s.lab.StartForeign(s.name, addr, rig.Must(os.Executable()), LimiterServerName, s.name, addr, s.URL(),
			strconv.Itoa(cmp.Or(c.connections, recipeConnections)), c.period.String(), c.skewOf(i).String())
		s.addrs = append(s.addrs, addr)
	}
}

// ask runs SQL in the side's database and returns the first value of the last result.
func (s *side) ask(sql string) string {
	ctx := s.lab.Ctx
	c := rig.Must(pgconn.Connect(ctx, s.URL()))
	defer c.Close(ctx)
	results := rig.Must(c.Exec(ctx, sql).ReadAll())
	if len(results) == 0 || len(results[len(results)-1].Rows) == 0 {
		return ""
	}
	return string(results[len(results)-1].Rows[0][0])
}

// A cost is the cost to a side's PostgreSQL.
type cost struct {
	cpu             time.Duration
	deadlocks, dead int64
	bytes           int64
}

func (s *side) spent() cost {
	count := func(sql string) int64 { return rig.Must(strconv.ParseInt(s.ask(sql), 10, 64)) }
	const tables = ` FROM pg_stat_user_tables WHERE relname IN ('limits', 'keys')`
	return cost{
		cpu:       rig.Must(rig.CPU(s.Pid())),
		deadlocks: count(`SELECT coalesce(sum(deadlocks), 0)::int8 FROM pg_stat_database`),
		dead:      count(`SELECT coalesce(sum(n_dead_tup), 0)::int8` + tables),
		bytes:     count(`SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::int8` + tables),
	}
}

// An outcome is the outcome of a load on a side.
type outcome struct {
	name     string
	loads    []*rig.LoadResult
	admitted uint64
	refused  uint64
	failed   uint64
	before   cost
	after    cost
}

func (c *contest) play(l *rig.Lab, name string, compress float64) *outcome {
	s := c.begin(l, name)
	o := &outcome{name: name, before: s.spent()}
	loads := make([]rig.Load, len(s.addrs))
	for i, addr := range s.addrs {
		loads[i] = rig.Load{URL: "http://" + addr + s.path, Steps: steps(compress), Seed: int64(i + 1)}
	}
	o.loads = l.Load(loads...)
	for _, one := range o.loads {
		o.admitted, o.refused = o.admitted+one.Success, o.refused+one.RateLimited
		o.failed += one.Attempted() - one.Success - one.RateLimited
	}
	o.after = s.spent()
	return o
}

// perDecision returns PostgreSQL's CPU time per answer in µs.
func (o *outcome) perDecision() float64 {
	answered := o.admitted + o.refused
	if answered == 0 {
		return math.NaN()
	}
	return float64((o.after.cpu - o.before.cpu).Microseconds()) / float64(answered)
}
