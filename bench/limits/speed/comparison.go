package speed

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// A comparison measures sides in turn.
type comparison struct {
	heading     string
	sides       []side // ours is the last
	connections int    // 0 for the default
	refused     bool   // all answers must be refusals; otherwise none may be
	warmUp      bool   // each side is loaded for a second first
	show        func(l *lab, all []rig.ComparedProgram, runs [][]rig.Measurement)
}

// play runs the comparison as a part of the experiment.
func (c comparison) play(l *lab) {
	if c.heading != "" {
		l.Heading("%s", c.heading)
	}
	all := l.open(c.sides...)
	for i := range all {
		all[i].Refuses = c.refused
	}
	n := cmp.Or(c.connections, connections)
	if c.warmUp {
		for i := range all {
			all[i].Measure(l.Ctx, n, time.Second)
		}
	}
	c.show(l, all, l.Compare(all, l.rounds, n, l.span))
}

// forwarding compares the cost of forwarding, with a number of loops or workers.
func forwarding(loops int) comparison {
	return comparison{
		heading: fmt.Sprintf("Forwarding with a local limit, %d connections kept alive, nginx as the target, %d loop(s) "+
			"against %d worker(s)", connections, loops, loops),
		sides: append(limiters(loops), ours(fmt.Sprintf("EVENT_LOOPS=%d", loops))), show: besidePeers,
	}
}

// refusals compares the cost of refusals.
func refusals() comparison {
	sides := limiters(1)
	for i := range sides {
		sides[i].path = "/shut"
	}
	return comparison{heading: "Refusing (429)", sides: append(sides, ours("RATE_LIMIT_LIMIT=1")), refused: true,
		show: besidePeers}
}

// target compares the speed of our target with nginx.
func target() comparison {
	ours := side{name: "weir target", start: func(l *lab, _, _ string) (*rig.Process, string) {
		return l.Start("target", "EVENT_LOOPS=1")
	}}
	return comparison{heading: "Plain 200 OK", sides: []side{direct("nginx static"), ours}, show: besidePeers}
}

// besidePeers prints the throughput and CPU of each side, and our ratios to the peers.
func besidePeers(l *lab, all []rig.ComparedProgram, runs [][]rig.Measurement) {
	last := len(all) - 1
	name, mine := all[last].Name, runs[last]
	l.Head("", "requests/s", "CPU µs per request", "requests/s: "+name+" ÷ it", "CPU: "+name+" ÷ it")
	for i, c := range all {
		cells := []string{c.Name, medianOf(runs[i], 0, rig.PerSecond), medianOf(runs[i], 2, rig.CPUPerRequest), "", ""}
		if i < last {
			cells[3], cells[4] = ratioOf(mine, runs[i], rig.PerSecond), ratioOf(mine, runs[i], rig.CPUPerRequest)
		}
		l.Row(cells...)
	}
}

// latency measures the latency that proxies add for one client with one connection.
func latency(proxies ...side) comparison {
	return comparison{
		heading:     "Latency added by " + proxies[0].name + " and " + proxies[len(proxies)-1].name + ", one connection, p50",
		connections: 1, sides: slices.Concat([]side{direct("direct")}, proxies), show: added,
	}
}

// added prints the latency that is added relative to the first side.
func added(l *lab, all []rig.ComparedProgram, runs [][]rig.Measurement) {
	base := result.MedianOf(runs[0], rig.P50)
	l.Head("", "p50 µs", "added µs")
	for i, c := range all {
		l.Row(c.Name, medianOf(runs[i], 0, rig.P50), fmt.Sprintf("%.0f", result.MedianOf(runs[i], rig.P50)-base))
	}
}

// variants prints variants of our proxy, relative to the first one.
func variants(what string) func(l *lab, all []rig.ComparedProgram, runs [][]rig.Measurement) {
	return func(l *lab, all []rig.ComparedProgram, runs [][]rig.Measurement) {
		l.Head(what, "requests/s", "CPU µs per request", "CPU ÷ that of "+all[0].Name, "resident MB")
		for i, c := range all {
			rss := rig.Must(rig.RSS(c.Process.Pid()))
			l.Row(c.Name, medianOf(runs[i], 0, rig.PerSecond), medianOf(runs[i], 1, rig.CPUPerRequest),
				ratioOf(runs[i], runs[0], rig.CPUPerRequest), fmt.Sprintf("%.1f", float64(rss)/1e6))
		}
	}
}
