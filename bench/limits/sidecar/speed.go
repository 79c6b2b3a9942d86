package sidecar

import (
	"debug/elf"
	"fmt"
	"os"
	"strings"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	connections = 64
	spell       = 5 * time.Second // of each run of wrk
	rounds      = 3
	plenty      = "RATE_LIMIT_LIMIT=1000000000"
)

// speed compares sidecars with a limit in Redis, and /check with refusals of the data port.
func (l *lab) speed() {
	l.Heading("Speed")
	l.Note("wrk, %d turns of %v; all proxies have one event loop.", rounds, spell)
	l.forwarding()
	l.checks()
	// With certificate authorities, the program is the whole image.
	l.AtMost("the program in an image in MB", float64(stripped(rig.Must(rig.Binary("proxy"))))/1e6, 25)
}

// forwarding compares the cost of asking a master with that of a limit in Redis.
func (l *lab) forwarding() {
	target := l.target()
	shared, sharedAddr := l.Start("proxy", "TARGET_URL=http://"+target, "REDIS_HOST="+l.Redis().Addr, "GATE=off",
		"EVENT_LOOPS=1", plenty)
	m := l.master()
	s, addr := l.Start("proxy", append(l.settings(target, m.Addr), plenty)...)
	wrk := func(addr string) rig.Wrk { return rig.Wrk{URL: "http://" + addr + "/api/test"} }
	all := []rig.ComparedProgram{{Name: "target", Wrk: wrk(target)},
		{Name: "limit in Redis", Wrk: wrk(sharedAddr), Process: shared}, {Name: "sidecar", Wrk: wrk(addr), Process: s}}
	many, one := l.Compare(all, rounds, connections, spell), l.Compare(all, rounds, 1, spell)
	t := result.NewTable(fmt.Sprintf(" | requests/s, %d connections | p50 µs, one connection | added µs | resident MB",
		connections))
	direct := result.MedianOf(one[0], rig.P50)
	for i, c := range all {
		p50 := result.MedianOf(one[i], rig.P50)
		t.Add("%s | %.0f | %.0f | %.0f | %.1f", c.Name, result.MedianOf(many[i], rig.PerSecond), p50, p50-direct,
			result.MedianOf(many[i], rig.ResidentMemory))
	}
	l.Table(t)
	l.Note("Ratio of requests/s, sidecar to limit in Redis: %s", result.RatioOf(many[2], many[1], rig.PerSecond).Ratio(2))
	l.AtLeast("sidecar: requests per second", result.MedianOf(many[2], rig.PerSecond), 40_000)
	l.AtMost("sidecar: added to p50 in µs", result.MedianOf(one[2], rig.P50)-direct, 150)
	l.AtMost("sidecar: resident MB under load", result.MedianOf(many[2], rig.ResidentMemory), 32)
	l.AtMost("master: resident MB after the load", float64(rig.Must(rig.RSS(m.Pid())))/1e6, 32)
}

// checks compares refusals of the decision port with those of the data port.
func (l *lab) checks() {
	m := l.master("TARGET_URL=http://"+l.target(), "GATE=off", "RATE_LIMIT_LIMIT=1", "RATE_LIMIT_WINDOW=3153600000")
	const client = "X-Forwarded-For: 192.0.2.1"
	all := []rig.ComparedProgram{
		{Name: "refused by the proxy", Wrk: rig.Wrk{URL: "http://" + m.Own + "/api/test", Header: client}, Refuses: true},
		{Name: "refused by /check", Wrk: rig.Wrk{URL: "http://" + m.Addr + "/check/path/api/test", Header: client},
			Refuses: true},
	}
	runs := l.Compare(all, rounds, connections, spell)
	t := result.NewTable(" | answers/s")
	for i, c := range all {
		t.Add("%s | %.0f", c.Name, result.MedianOf(runs[i], rig.PerSecond))
	}
	l.Table(t)
	l.Note("Ratio of /check to the proxy's own refusals: %s", result.RatioOf(runs[1], runs[0], rig.PerSecond).Ratio(2))
	l.AtLeast("/check: answers per second, relative to the proxy's own refusals",
		result.MedianOf(runs[1], rig.PerSecond)/result.MedianOf(runs[0], rig.PerSecond), .9)
}

// stripped returns the size of a program without symbols and debugging information, which the
// images do not contain.
func stripped(file string) int64 {
	size := rig.Must(os.Stat(file)).Size()
	program := rig.Must(elf.Open(file))
	defer program.Close()
	for _, s := range program.Sections {
		if strings.HasPrefix(s.Name, ".debug_") || s.Name == ".symtab" || s.Name == ".strtab" {
			size -= int64(s.FileSize)
		}
	}
	return size
}
