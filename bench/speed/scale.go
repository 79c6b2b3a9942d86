package speed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weir/bench/rig"
)

// byConnections compares by the number of connections.
func (l *lab) byConnections() error {
	l.heading("By the number of connections, forwarding with a local limit")
	all, err := l.open(limiters(1)[0], ours())
	if err != nil {
		return err
	}
	peer, ours := all[0].Name, all[1].Name
	l.table("connections", peer+" /s", ours+" /s", "ratio (min … max)", peer+" CPU µs", ours+" CPU µs", "ratio (min … max)")
	for _, n := range []int{1, 16, 256, 1024} {
		runs, err := l.turns(all, n)
		if err != nil {
			return err
		}
		theirs, mine := runs[0], runs[1]
		l.row(fmt.Sprint(n), medianOf(theirs, 0, rig.PerSecond), medianOf(mine, 0, rig.PerSecond), ratioOf(mine, theirs, rig.PerSecond),
			medianOf(theirs, 1, rig.CPUEach), medianOf(mine, 1, rig.CPUEach), ratioOf(mine, theirs, rig.CPUEach))
	}
	return nil
}

// byGate compares by the mode of the gate.
func byGate() comparison {
	c := comparison{heading: "By the mode of the gate, forwarding with a local limit", show: variants("gate")}
	for _, mode := range []string{"off", "shadow", "on"} {
		c.sides = append(c.sides, weir(mode, "GATE="+mode))
	}
	return c
}

// byRules compares by the number of rules, two of which match.
func (l *lab) byRules() error {
	c := comparison{heading: "By the number of rules, of which two match", sides: []side{weir("none")}, show: variants("rules")}
	for _, n := range []int{10, 100, 1000} {
		file := filepath.Join(l.Dir, fmt.Sprintf("rules-%d.yaml", n))
		if err := os.WriteFile(file, []byte(manyRules(n)), 0o600); err != nil {
			return err
		}
		c.sides = append(c.sides, weir(fmt.Sprint(n), "RULES_FILE="+file))
	}
	return c.play(l)
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
		fmt.Fprintf(&b, "- {id: rule-%d, match: {path: %s}, key: [ip], limit: {algorithm: fixed, limit: %d, window: 3600}}\n", i, path, plenty)
	}
	return b.String()
}

// byKeys compares by the number of keys of a rule.
func (l *lab) byKeys() error {
	c := comparison{heading: "By the number of keys of a rule, drawn at random", show: variants("keys")}
	rules := filepath.Join(l.Dir, "keys.yaml")
	text := fmt.Sprintf("rules:\n- {id: per-client, key: [\"header:X-Client-Id\"], limit: {algorithm: token, capacity: %d, fillRate: 1000000}}\n", plenty)
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		return err
	}
	for _, n := range []int{1, 1000, 100_000, 1_000_000} {
		s := weir(fmt.Sprint(n), "RULES_FILE="+rules)
		s.script = fmt.Sprintf("request = function() return wrk.format(nil, nil, {[\"X-Client-Id\"] = tostring(math.random(%d))}) end\n", n)
		c.sides = append(c.sides, s)
	}
	return c.play(l)
}

// byProxies compares by the number of proxies that share a limit in one Redis, each loaded by its
// own wrk.
func (l *lab) byProxies() error {
	l.heading("By the number of proxies that share a limit in one Redis (all on the cores of this machine)")
	l.table("proxies", "decisions/s in total", "Redis' CPU µs per decision", "commands per decision")
	for _, n := range []int{1, 2, 4} {
		if err := l.sharing(n); err != nil {
			return err
		}
		l.End()
		l.served = nil
	}
	return nil
}

func (l *lab) sharing(n int) error {
	all, err := l.open(shared()[len(shared())-1])
	if err != nil {
		return err
	}
	redis := all[0].Redis
	for len(all) < n {
		more, err := l.open(weir(all[0].Name, "REDIS_HOST="+redis.Addr))
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	before, err := rig.CPU(redis.Pid())
	if err != nil {
		return err
	}
	runs, errs := make([]rig.Sample, n), make([]error, n)
	var driving sync.WaitGroup
	for i := range all {
		driving.Go(func() { runs[i], errs[i] = all[i].Sample(l.ctx, connections/n, 2*l.span) })
	}
	driving.Wait()
	after, err := rig.CPU(redis.Pid())
	if err = errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("%d proxies: %w", n, err)
	}
	var total rig.Sample
	for _, s := range runs {
		total.PerSecond, total.Requests = total.PerSecond+s.PerSecond, total.Requests+s.Requests
	}
	commands, decisions, err := l.storeWork(all)
	l.row(fmt.Sprint(n), fmt.Sprintf("%.0f", total.PerSecond), fmt.Sprintf("%.2f", 1e6*(after-before).Seconds()/total.Requests), fmt.Sprintf("%.3f", commands/decisions))
	return err
}

// loadgenMost compares the maximum throughput and the CPU per request of our generator with wrk.
// The requested rate is far more than possible, so that all connections are always busy, as with
// wrk. Requests that could not be sent are dropped at the end of the schedule.
func (l *lab) loadgenMost() error {
	l.heading("Load generators at their most, 64 connections, one thread or loop against nginx")
	addr, err := l.target()
	if err != nil {
		return err
	}
	url := "http://" + addr + "/api/test"
	runs, err := rig.Turns(l.rounds, 2, func(i int) (rig.Sample, error) {
		if i == 0 {
			w, err := rig.Wrk{URL: url, Connections: connections, For: l.span}.Run(l.ctx)
			return rig.Sample{PerSecond: w.PerSecond, CPU: 1e6 * w.CPU.Seconds() / max(w.Requests, 1)}, err
		}
		r, err := rig.Load{URL: url, Rate: 300_000, For: l.span, Connections: connections, Loops: 1, Timeout: 500 * time.Millisecond}.Run(l.ctx)
		if err != nil {
			return rig.Sample{}, err
		}
		return rig.Sample{PerSecond: r.Throughput, CPU: 1e6 * r.CPU.Seconds() / float64(max(r.Completed-r.Errors, 1))}, nil
	})
	if err != nil {
		return err
	}
	return besidePeers(l, []contestant{{Contestant: rig.Contestant{Name: "wrk"}}, {Contestant: rig.Contestant{Name: "weir loadgen"}}}, runs)
}
