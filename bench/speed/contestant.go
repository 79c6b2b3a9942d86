package speed

import (
	"fmt"
	"time"

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
	side
	process *rig.Process
	addr    string
	redis   *rig.Redis // its own; nil: none
}

func (c *contestant) url() string {
	if c.path == "" {
		return "http://" + c.addr + "/api/test"
	}
	return "http://" + c.addr + c.path
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
		c.process, c.addr, err = l.keep(rig.StartProxy(l.ctx, append([]string{"GATE=off", "TARGET_URL=http://" + target, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", plenty),
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
		all[i].side = s
		if err := s.start(l, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// A sample is one run against a contestant.
type sample struct {
	rig.WrkRun
	each  time.Duration // CPU of the contestant per request
	store float64       // µs of its Redis per request; 0: it has none of its own
}

// perSec, cpuEach and the others are the figures that comparisons are about.
func perSec(s sample) float64   { return s.PerSecond }
func cpuEach(s sample) float64  { return micros(s.each) }
func storeCPU(s sample) float64 { return s.store }
func p50(s sample) float64      { return micros(s.P50) }

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// sample drives the contestant for a time.
func (l *lab) sample(c *contestant, connections int, span time.Duration) (s sample, err error) {
	var before, after time.Duration
	if c.redis != nil {
		if before, err = rig.CPU(c.redis.Pid()); err != nil {
			return s, err
		}
	}
	r, used, err := rig.Wrk{URL: c.url(), Connections: connections, For: span, Script: c.script, Header: c.header}.Against(l.ctx, c.process.Pid())
	if err != nil {
		return s, err
	}
	if c.redis != nil {
		after, err = rig.CPU(c.redis.Pid())
	}
	n := max(r.Requests, 1)
	return sample{r, time.Duration(float64(used) / n), micros(after-before) / n}, err
}

// turns lets contestants take turns over connections, and returns the runs of each.
func (l *lab) turns(all []contestant, connections int) ([][]sample, error) {
	return rig.Turns(l.rounds, len(all), func(i int) (sample, error) { return l.sample(&all[i], connections, l.span) })
}

// medianOf and ratioOf are cells of tables: the median of a figure, and of the pairs'
// ratios, ours to the peer's, with its ends.
func medianOf(runs []sample, digits int, of func(sample) float64) string {
	return fmt.Sprintf("%.*f", digits, report.MedianOf(runs, of))
}

func ratioOf(ours, peers []sample, of func(sample) float64) string {
	return report.RatioOf(ours, peers, of).Ratio(2)
}
