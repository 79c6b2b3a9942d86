package speed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/bench/rig"
)

// byConnections: how many clients there are.
func (l *lab) byConnections() error {
	l.heading("By the number of connections, forwarding with a local limit")
	target, peers, err := l.field(1)
	if err != nil {
		return err
	}
	ours, err := l.weir("weir proxy", target)
	if err != nil {
		return err
	}
	peer := peers[0]
	l.table("connections", peer.name+" /s", ours.name+" /s", "ratio (min … max)", peer.name+" CPU µs", ours.name+" CPU µs", "ratio (min … max)")
	for _, n := range []int{1, 16, 256, 1024} {
		runs, err := l.turns([]contestant{peer, ours}, n)
		if err != nil {
			return err
		}
		theirs, mine := runs[0], runs[1]
		l.row(fmt.Sprint(n), medianOf(theirs, 0, perSec), medianOf(mine, 0, perSec), ratioOf(mine, theirs, perSec),
			medianOf(theirs, 1, cpuEach), medianOf(mine, 1, cpuEach), ratioOf(mine, theirs, cpuEach))
	}
	return nil
}

// A variant is one of several settings of our proxy that take turns.
type variant struct {
	name   string
	env    []string
	script string // of wrk
}

// rival lets variants of our proxy take turns, and compares each with the first.
func (l *lab) rival(what string, variants []variant) error {
	_, target, err := l.keep(nginx(l.ctx, l.dir, nginxStatic, 1))
	if err != nil {
		return err
	}
	all := make([]contestant, len(variants))
	for i, v := range variants {
		if all[i], err = l.weir(v.name, target, v.env...); err != nil {
			return err
		}
		all[i].script = v.script
	}
	runs, err := l.turns(all, connections)
	if err != nil {
		return err
	}
	l.table(what, "requests/s", "CPU µs per request", "CPU ÷ that of "+variants[0].name, "resident MB")
	for i, c := range all {
		for _, s := range runs[i] {
			if s.failed > 0 {
				return fmt.Errorf("%s %s: %d of its answers failed", what, c.name, s.failed)
			}
		}
		rss, err := rig.RSS(c.process.Pid())
		if err != nil {
			return err
		}
		l.row(c.name, medianOf(runs[i], 0, perSec), medianOf(runs[i], 1, cpuEach), ratioOf(runs[i], runs[0], cpuEach), fmt.Sprintf("%.1f", float64(rss)/1e6))
	}
	return nil
}

// byGate: what the gate costs.
func (l *lab) byGate() error {
	l.heading("By the mode of the gate, forwarding with a local limit")
	var variants []variant
	for _, mode := range []string{"off", "shadow", "on"} {
		variants = append(variants, variant{name: mode, env: []string{"GATE=" + mode}})
	}
	return l.rival("gate", variants)
}

// byRules: how many rules there are, of which two match.
func (l *lab) byRules() error {
	l.heading("By the number of rules, of which two match")
	variants := []variant{{name: "none"}}
	for _, n := range []int{10, 100, 1000} {
		file := filepath.Join(l.dir, fmt.Sprintf("rules-%d.yaml", n))
		if err := os.WriteFile(file, []byte(manyRules(n)), 0o600); err != nil {
			return err
		}
		variants = append(variants, variant{name: fmt.Sprint(n), env: []string{"RULES_FILE=" + file}})
	}
	return l.rival("rules", variants)
}

// manyRules is a file of n rules; the first two match what wrk asks for.
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

// byKeys: how many keys of a rule are in use.
func (l *lab) byKeys() error {
	l.heading("By the number of keys of a rule, drawn at random")
	rules := filepath.Join(l.dir, "keys.yaml")
	text := fmt.Sprintf("rules:\n- {id: per-client, key: [\"header:X-Client-Id\"], limit: {algorithm: token, capacity: %d, fillRate: 1000000}}\n", plenty)
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		return err
	}
	var variants []variant
	for _, n := range []int{1, 1000, 100_000, 1_000_000} {
		script := filepath.Join(l.dir, fmt.Sprintf("keys-%d.lua", n))
		lua := fmt.Sprintf("request = function() return wrk.format(nil, nil, {[\"X-Client-Id\"] = tostring(math.random(%d))}) end\n", n)
		if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
			return err
		}
		variants = append(variants, variant{name: fmt.Sprint(n), env: []string{"RULES_FILE=" + rules}, script: script})
	}
	return l.rival("keys", variants)
}

// byProxies: how many proxies share one limit in one Redis, each driven by a wrk
// of its own.
func (l *lab) byProxies() error {
	l.heading("By the number of proxies that share a limit in one Redis (all on the cores of this machine)")
	l.table("proxies", "decisions/s in total", "Redis' CPU µs per decision", "commands per decision")
	for _, n := range []int{1, 2, 4} {
		if err := l.sharing(n); err != nil {
			return err
		}
		l.stop()
	}
	return nil
}

func (l *lab) sharing(n int) error {
	_, target, err := l.keep(nginx(l.ctx, l.dir, nginxStatic, 1))
	if err != nil {
		return err
	}
	first, err := l.sharedOurs(target)
	if err != nil {
		return err
	}
	all := []contestant{first.contestant}
	for len(all) < n {
		c, err := l.weir(first.name, target, "REDIS_HOST="+first.redis.Addr)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	before, err := rig.CPU(first.redis.Pid())
	if err != nil {
		return err
	}
	type came struct {
		s   sample
		err error
	}
	results := make(chan came, n)
	for _, c := range all {
		go func() {
			s, err := l.sample(c, connections/n, 2*l.span)
			results <- came{s, err}
		}()
	}
	var total sample
	for range all {
		r := <-results
		if err == nil {
			err = r.err
		}
		total.perSec, total.requests = total.perSec+r.s.perSec, total.requests+r.s.requests
	}
	after, failed := rig.CPU(first.redis.Pid())
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("%d proxies: %w", n, err)
	}
	var commands, decisions float64
	for _, c := range all {
		m, err := rig.Scrape(l.ctx, hostOf(c.url))
		if err != nil {
			return err
		}
		commands, decisions = commands+m.Sum("ratelimiter_store_commands_total"), decisions+m.Sum("ratelimiter_store_decisions_total")
	}
	l.row(fmt.Sprint(n), fmt.Sprintf("%.0f", total.perSec), fmt.Sprintf("%.2f", float64((after-before)/time.Microsecond)/total.requests), fmt.Sprintf("%.3f", commands/decisions))
	return nil
}

// loadgenMost: how many requests our generator can make beside wrk. It is asked
// for far more than is possible, so that all its connections are busy all the
// time, as wrk's are.
func (l *lab) loadgenMost() error {
	l.heading("Load generators at their most, 64 connections, one thread or loop against nginx")
	_, addr, err := l.keep(nginx(l.ctx, l.dir, nginxStatic, 1))
	if err != nil {
		return err
	}
	url := "http://" + addr + "/api/test"
	runs, err := l.each(2, func(i int) (sample, error) {
		if i == 0 {
			w, err := rig.Wrk{URL: url, Connections: connections, For: l.span}.Run(l.ctx)
			return sample{perSec: w.PerSecond}, err
		}
		got, err := rig.Load{URL: url, Rate: 300_000, For: l.span, Connections: connections, Loops: 1}.Run(l.ctx, nil)
		if err != nil {
			return sample{}, err
		}
		return sample{perSec: got.Throughput}, nil
	})
	if err != nil {
		return err
	}
	l.table("", "requests/s", "requests/s: weir loadgen ÷ it")
	l.row("wrk", medianOf(runs[0], 0, perSec), ratioOf(runs[1], runs[0], perSec))
	l.row("weir loadgen", medianOf(runs[1], 0, perSec), "")
	return nil
}
