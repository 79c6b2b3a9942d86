package speed

import (
	"cmp"
	"fmt"

	"weir/bench/report"
	"weir/bench/rig"
)

// A side of a comparison is a server, and how it is asked.
type side struct {
	name   string
	start  func(l *lab, c *contestant) error
	path   string // empty: /api/test
	script string // of wrk; empty: plain requests
	header string // a field of each request; empty: none
}

// A contestant is a side that runs.
type contestant struct {
	rig.Contestant
	addr string
}

// plenty never runs out within an hour's window.
const plenty = 1_000_000_000

// weir is our proxy with one loop and a limit that lets everything through; env may say
// otherwise.
func weir(name string, env ...string) side {
	return side{name: name, start: func(l *lab, c *contestant) error {
		target, err := l.target()
		if err != nil {
			return err
		}
		c.Process, c.addr, err = l.keep(rig.StartProxy(l.ctx, append([]string{"GATE=off", "TARGET_URL=http://" + target, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", plenty),
			"RATE_LIMIT_WINDOW=3600", "EVENT_LOOPS=1"}, env...)))
		return err
	}}
}

// ours is weir under its usual name.
func ours(env ...string) side { return weir("weir proxy", env...) }

// open starts sides.
func (l *lab) open(sides ...side) ([]contestant, error) {
	all := make([]contestant, len(sides))
	for i, s := range sides {
		c := &all[i]
		c.Name = s.name
		if err := s.start(l, c); err != nil {
			return nil, err
		}
		c.Wrk = rig.Wrk{URL: "http://" + c.addr + cmp.Or(s.path, "/api/test"), Script: s.script, Header: s.header}
	}
	return all, nil
}

// turns lets contestants take turns over connections, and returns the runs of each.
func (l *lab) turns(all []contestant, connections int) ([][]rig.Sample, error) {
	return rig.Turns(l.rounds, len(all), func(i int) (rig.Sample, error) { return all[i].Sample(l.ctx, connections, l.span) })
}

// medianOf and ratioOf are cells of tables: the median of a figure, and of the pairs'
// ratios, ours to the peer's, with its ends.
func medianOf(runs []rig.Sample, digits int, of func(rig.Sample) float64) string {
	return fmt.Sprintf("%.*f", digits, report.MedianOf(runs, of))
}

func ratioOf(ours, peers []rig.Sample, of func(rig.Sample) float64) string {
	return report.RatioOf(ours, peers, of).Ratio(2)
}
