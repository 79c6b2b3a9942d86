package deferred

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

const (
	connections = 64
	spell       = 4 * time.Second // of wrk, each
	rounds      = 10
	costMax     = 1.01
	plenty      = "limit: {algorithm: fixed, limit: 1000000000, window: 1}"
	script      = `wrk.method = "POST"
wrk.body = string.rep("x", 1024)
`
)

// live compares the processor time that a rule takes that could defer with that of one that cannot.
func (l *lab) live(ctx context.Context) error {
	file := filepath.Join(l.dir, "post.lua")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return err
	}
	var sides [2]*rig.Rig
	for i, terms := range [...]string{plenty, plenty + ", defer: {when: always}"} {
		env, err := l.settings(fmt.Sprint("live", i), terms)
		if err != nil {
			return err
		}
		r, err := rig.Topology{Proxy: env}.Start(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = r.Stop() }()
		sides[i] = r
	}
	runs, err := rig.Turns(rounds, len(sides), func(i int) (float64, error) {
		r, used, err := rig.Wrk{URL: sides[i].URL(0), Connections: connections, For: spell, Script: file}.Against(ctx, sides[i].Proxies[0].Pid())
		if err == nil {
			err = r.Expect(false)
		}
		return 1e6 * used.Seconds() / r.Requests, err
	})
	if err != nil {
		return err
	}
	micros := func(v float64) float64 { return v }
	ratio := report.RatioOf(runs[1], runs[0], micros)
	fmt.Fprintf(l.out, "### Live requests\n\nwrk posts 1 KiB, %d turns of %v: %.2f µs of processor time a request by a rule without defer, %.2f µs by one with it, whose queue is empty. Ratio of the turns: %s\n\n",
		rounds, spell, report.MedianOf(runs[0], micros), report.MedianOf(runs[1], micros), ratio.Ratio(3))
	l.e.AtMost("live: processor time a request with defer, of that without", ratio.Median, costMax)
	return nil
}
