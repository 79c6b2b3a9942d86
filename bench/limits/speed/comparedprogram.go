package speed

import (
	"cmp"
	"fmt"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// A side of a comparison is a server and the requests to it.
type side struct {
	name string
	// start starts the server, in front of the part's target unless it is a target itself. redis is
	// the address of its Redis; empty for none.
	start    func(l *lab, target, redis string) (*rig.Process, string)
	ownRedis bool   // a Redis is started for it
	path     string // empty for /api/test
	script   string // of wrk; empty for plain requests
	header   string // a field of each request; empty for none
	program  string // in place of wrk; empty for wrk
	streams  int    // see rig.Wrk
}

// plenty is a limit per hour that is never reached.
const plenty = 1_000_000_000

// weir returns our proxy with one loop and a limit that is never reached, unless env overrides
// them.
func weir(name string, env ...string) side {
	return side{name: name, start: func(l *lab, target, redis string) (*rig.Process, string) {
		return l.Start("proxy",
			append([]string{"GATE=off", "TARGET_URL=http://" + target, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", plenty),
				"RATE_LIMIT_WINDOW=3600", "EVENT_LOOPS=1", "REDIS_HOST=" + redis}, env...)...)
	}}
}

// direct returns the part's target as a side.
func direct(name string) side {
	return side{name: name, start: func(l *lab, target, _ string) (*rig.Process, string) { return l.served, target }}
}

// ours returns weir with its usual name.
func ours(env ...string) side { return weir("weir proxy", env...) }

func (l *lab) open(sides ...side) []rig.ComparedProgram {
	target := l.target()
	all := make([]rig.ComparedProgram, len(sides))
	for i, s := range sides {
		c := &all[i]
		c.Name = s.name
		redis := ""
		if s.ownRedis {
			c.Redis = l.Redis()
			redis = c.Redis.Addr
		}
		c.Process, c.Addr = s.start(l, target, redis)
		c.Wrk = rig.Wrk{URL: "http://" + c.Addr + cmp.Or(s.path, "/api/test"), Script: s.script, Header: s.header,
			Program: s.program, Streams: s.streams}
	}
	return all
}

// medianOf and ratioOf format cells of tables: the median of a figure, and the spread of our
// ratios to a peer.
func medianOf(runs []rig.Measurement, digits int, of func(rig.Measurement) float64) string {
	return fmt.Sprintf("%.*f", digits, result.MedianOf(runs, of))
}

// pair adds a row with a figure of a peer, ours, and the ratio.
func (l *lab) pair(name string, digits int, of func(rig.Measurement) float64, peers, ours []rig.Measurement) {
	l.Row(name, medianOf(peers, digits, of), medianOf(ours, digits, of), ratioOf(ours, peers, of))
}

func ratioOf(ours, peers []rig.Measurement, of func(rig.Measurement) float64) string {
	return result.RatioOf(ours, peers, of).Ratio(2)
}
