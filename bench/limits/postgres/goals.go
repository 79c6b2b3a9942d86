package postgres

import (
	"fmt"
	"math"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	goalConnections = 64 // of wrk, to each proxy
	goalTime        = 8 * time.Second
	goalKeys        = 100_000
	plenty          = 1_000_000_000 // permits, more than can be used
)

// A speed is the rate of decisions and their cost to PostgreSQL.
type speed struct {
	perSecond float64
	cpu       float64 // µs per decision; NaN without PostgreSQL
	calls     float64 // of functions in PostgreSQL per decision; NaN if not counted
	p99       float64 // in seconds; NaN if unknown
	refused   float64 // share of requests refused or failed
}

// known formats a figure, or returns a dash if it is NaN.
func known(format string, figure float64) string {
	if math.IsNaN(figure) {
		return "–"
	}
	return fmt.Sprintf(format, figure)
}

// goals measures the speed of decisions with limits that admit all requests.
func (l *lab) goals() {
	l.Heading("Speed")
	l.Note("The limits admit all requests. There are two instances, each loaded by wrk with %d connections for %v. weir: "+
		"two proxies without targets answer GET /check; PostgreSQL makes the decision of each answer, none is made from "+
		"memory. nowait: two services that also answer by themselves; they have %d connections to PostgreSQL, half of "+
		"them per instance, and refuse while another request is being admitted. The last two rows are for information and "+
		"have no expectations: the proxies also forward each request to a target on the same machine, and in the last row "+
		"each keeps the limits in its own memory, which shows how much the machine can forward.",
		goalConnections, goalTime, recipeConnections)
	t := result.NewTable(
		"load | decisions/s | refused | PostgreSQL's CPU µs per decision | calls per decision | p99 ms of the store")
	var found [5]speed
	for i, row := range []struct {
		name, way string
		keys      int
		contest   contest
	}{
		{"weir, one key", weirSide, 1, contest{checks: true}},
		{fmt.Sprintf("weir, %d keys", goalKeys), weirSide, goalKeys, contest{checks: true}},
		{"nowait, one key", "nowait", 1, contest{}},
		{"weir, one key, forwarding", weirSide, 1, contest{}},
		{"weir, one key, forwarding without PostgreSQL", weirSide, 1, contest{apart: true}},
	} {
		s := &found[i]
		l.turn(row.name, func() { *s = row.contest.drive(l.Lab, row.way, row.keys) })
		t.Add("%s | %.0f | %s | %s | %s | %s", row.name, s.perSecond, known("%.0f %%", 100*s.refused),
			known("%.1f", s.cpu), known("%.3f", s.calls), known("%.2f", 1e3*s.p99))
		l.Never(row.way == weirSide && s.refused > 0, "%s: %.2f %% of the requests failed", row.name, 100*s.refused)
	}
	hot, many, nowait := found[0], found[1], found[2]
	l.Table(t)
	l.AtLeast("one key: decisions per second", hot.perSecond, 40_000)
	l.AtMost("one key: PostgreSQL's CPU µs per decision", hot.cpu, 8)
	l.AtMost("one key: p99 of the store in ms", 1e3*hot.p99, 10)
	l.AtMost("one key: calls per decision", hot.calls, 0.2)
	l.AtLeast("many keys: decisions per second", many.perSecond, 12_000)
	l.AtMost("many keys: PostgreSQL's CPU µs per decision", many.cpu, 40)
	l.AtLeast("one key: decisions, of nowait's", hot.perSecond/nowait.perSecond, 5)
	l.AtMost("one key: CPU per decision, of nowait's", hot.cpu/nowait.cpu, 0.2)
}

// drive loads the instances of a side with requests for random keys; recipe services ignore
// the key.
func (c *contest) drive(l *rig.Lab, name string, keys int) speed {
	c.connections = recipeConnections / instances
	c.rules = fmt.Sprintf("rules:\n- {id: user, key: [\"header:X-User\"], limit: {algorithm: token, capacity: %d, "+
		"fillRate: 1000000}}\n", plenty)
	s := c.begin(l, name)
	before := s.counted()
	began := time.Now()
	requests, refused := s.flood(keys)
	took := time.Since(began).Seconds()
	after := s.counted()
	r := speed{perSecond: requests / took, refused: refused / requests, cpu: math.NaN(), calls: math.NaN(),
		p99: math.NaN()}
	if c.apart {
		return r
	}
	r.cpu = float64((after.cpu - before.cpu).Microseconds()) / requests
	if name == weirSide {
		decisions := after.decisions - before.decisions
		rig.Check(decidedOnce(requests, decisions))
		r.calls, r.p99 = (after.commands-before.commands)/decisions, after.p99
	}
	return r
}

// decidedOnce checks that the store made one decision for each answer. It may also have decided
// the last request of each connection, for whose answer wrk does not wait.
func decidedOnce(answers, decisions float64) error {
	if decisions < answers || decisions > answers+instances*goalConnections {
		return fmt.Errorf("the store made %.0f decisions for %.0f answers, so the measurement is not valid", decisions,
			answers)
	}
	return nil
}

// flood loads each instance with wrk for goalTime and returns the numbers of requests and of
// refused requests.
func (s *side) flood(keys int) (requests, refused float64) {
	const fields = `{["X-User"] = tostring(math.random(%d)), ["X-Forwarded-For"] = "192.0.2.1"}` // /check needs the second
	script := fmt.Sprintf("request = function() return wrk.format(nil, nil, "+fields+") end\n", keys)
	runs := make([]rig.WrkRun, len(s.addrs))
	rig.Parallel(len(runs), func(i int) {
		runs[i] = rig.Wrk{URL: "http://" + s.addrs[i] + s.path, Connections: goalConnections, For: goalTime,
			Script: script}.Run(s.lab.Ctx)
	})
	for _, run := range runs {
		requests, refused = requests+run.Requests, refused+float64(run.Failed)
	}
	return requests, refused
}

// A count holds counters of proxies and PostgreSQL.
type count struct {
	decisions, commands float64
	p99                 float64 // of batches in seconds, of the worst proxy
	cpu                 time.Duration
}

// counted reads the counters; recipe services have only those of PostgreSQL.
func (s *side) counted() (c count) {
	for _, addr := range s.own {
		samples := s.lab.Scrape(addr)
		c.decisions += samples.Sum("ratelimiter_store_decisions_total")
		c.commands += samples.Sum("ratelimiter_store_commands_total")
		c.p99 = max(c.p99, samples.Quantile(0.99, nil, "ratelimiter_postgres_request_duration_seconds"))
	}
	c.cpu = rig.Must(rig.CPU(s.Pid()))
	return c
}
