package speed

import (
	"fmt"
	"strings"
	"time"

	"weir/bench/lab/rig"
)

func (l *lab) byConnections() {
	l.Heading("By the number of connections, forwarding with a local limit")
	all := l.open(limiters(1)[0], ours())
	peer, ours := all[0].Name, all[1].Name
	l.Head("connections", peer+" /s", ours+" /s", "ratio (min … max)", peer+" CPU µs", ours+" CPU µs",
		"ratio (min … max)")
	for _, n := range []int{1, 16, 256, 1024} {
		runs := l.Compare(all, l.rounds, n, l.span)
		theirs, mine := runs[0], runs[1]
		l.Row(fmt.Sprint(n), medianOf(theirs, 0, rig.PerSecond), medianOf(mine, 0, rig.PerSecond),
			ratioOf(mine, theirs, rig.PerSecond),
			medianOf(theirs, 1, rig.CPUPerRequest), medianOf(mine, 1, rig.CPUPerRequest), ratioOf(mine, theirs,
				rig.CPUPerRequest))
	}
}

func byGate() comparison {
	c := comparison{heading: "By the mode of the gate, forwarding with a local limit", show: variants("gate")}
	for _, mode := range []string{"off", "shadow", "on"} {
		c.sides = append(c.sides, weir(mode, "GATE="+mode))
	}
	return c
}

func (l *lab) byRules() {
	c := comparison{heading: "By the number of rules, of which two match", sides: []side{weir("none")},
		show: variants("rules")}
	for _, n := range []int{10, 100, 1000} {
		c.sides = append(c.sides, weir(fmt.Sprint(n), l.Rules(manyRules(n))))
	}
	c.play(l)
}

// manyRules returns a file of n rules; the first two match the requests of wrk.
func manyRules(n int) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		path := "/api/**"
		if i > 1 {
			path = fmt.Sprintf("/service-%d/*/items/**", i)
		}
		fmt.Fprintf(&b, "- {id: rule-%d, match: {path: %s}, key: [ip], limit: {algorithm: fixed, limit: "+
			"%d, window: 3600}}\n", i, path, plenty)
	}
	return b.String()
}

func (l *lab) byKeys() {
	c := comparison{heading: "By the number of keys of a rule, drawn at random", show: variants("keys")}
	rules := l.Rules(fmt.Sprintf("rules:\n- {id: per-client, key: [\"header:X-Client-Id\"], limit: {algorithm: token, "+
		"capacity: %d, fillRate: 1000000}}\n", plenty))
	for _, n := range []int{1, 1000, 100_000, 1_000_000} {
		s := weir(fmt.Sprint(n), rules)
		s.script = fmt.Sprintf(
			"request = function() return wrk.format(nil, nil, {[\"X-Client-Id\"] = tostring(math.random(%d))}) end\n", n)
		c.sides = append(c.sides, s)
	}
	c.play(l)
}

// byProxies compares by the number of proxies that share a limit in one Redis, each loaded by its
// own wrk.
func (l *lab) byProxies() {
	l.Heading("By the number of proxies that share a limit in one Redis (all on the cores of this machine)")
	l.Head("proxies", "decisions/s in total", "Redis' CPU µs per decision", "commands per decision")
	for _, n := range []int{1, 2, 4} {
		rig.Section(fmt.Sprintf("%d proxies", n), func() { l.sharing(n) })
		l.End()
		l.served = nil
	}
}

func (l *lab) sharing(n int) {
	all := l.open(shared()[len(shared())-1])
	redis := all[0].Redis
	for len(all) < n {
		all = append(all, l.open(weir(all[0].Name, "REDIS_HOST="+redis.Addr))...)
	}
	before := rig.Must(rig.CPU(redis.Pid()))
	runs := make([]rig.Measurement, n)
	rig.Parallel(n, func(i int) { runs[i] = all[i].Measure(l.Ctx, connections/n, 2*l.span) })
	used := rig.Must(rig.CPU(redis.Pid())) - before
	var total rig.Measurement
	for _, s := range runs {
		total.PerSecond, total.Requests = total.PerSecond+s.PerSecond, total.Requests+s.Requests
	}
	l.Add("%d | %.0f | %.2f | %s", n, total.PerSecond, 1e6*used.Seconds()/total.Requests, l.perDecision(all))
}

// loadgenMost compares the maximum throughput and the CPU per request of our generator with wrk.
// The requested rate is far more than possible, so that all connections are always busy, as with
// wrk. Requests that could not be sent are dropped at the end of the schedule.
func (l *lab) loadgenMost() {
	l.Heading("Load generators at their most, 64 connections, one thread or loop against nginx")
	url := "http://" + l.target() + "/api/test"
	runs := rig.Alternate(l.rounds, 2, func(i int) rig.Measurement {
		if i == 0 {
			w := rig.Wrk{URL: url, Connections: connections, For: l.span}.Run(l.Ctx)
			return rig.Measurement{PerSecond: w.PerSecond, CPU: 1e6 * w.CPU.Seconds() / max(w.Requests, 1)}
		}
		r := l.Load(rig.Load{URL: url, Rate: 300_000, For: l.span, Connections: connections, Loops: 1,
			Timeout: 500 * time.Millisecond})[0]
		return rig.Measurement{PerSecond: r.Throughput, CPU: 1e6 * r.CPU.Seconds() / float64(max(r.Completed-r.Errors, 1))}
	})
	besidePeers(l, []rig.ComparedProgram{{Name: "wrk"}, {Name: "weir loadgen"}}, runs)
}
