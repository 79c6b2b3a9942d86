// Package speed compares our programs with common alternatives, at the same time on the
// same machine. The result is a ratio: the two alternate, and the median of the pairs'
// ratios is reported with its spread.
package speed

import (
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// connections is the default number of connections.
const connections = 64

// An effort says how thorough comparisons are.
type effort struct {
	rounds int           // runs of each side, in turns
	span   time.Duration // of a run
	parts  []func(l *lab)
}

func efforts() map[string]effort {
	overHTTP2 := http2Parts()
	usual := slices.Concat([]func(l *lab){forwarding(1).play, forwarding(2).play, redis().play,
		latency(shared()...).play, refusals().play,
		latency(append(limiters(1), ours())...).play, target().play, (*lab).loadgen, (*lab).loadgenMost,
		(*lab).byConnections, byGate().play, (*lab).byRules, (*lab).byKeys, (*lab).byProxies, (*lab).memory,
		(*lab).start}, overHTTP2)
	return map[string]effort{
		"quick": {3, time.Second, []func(l *lab){forwarding(1).play, forwarding(2).play, refusals().play, (*lab).start}},
		"usual": {5, time.Second, usual},
		"all":   {7, 3 * time.Second, usual},
		"http2": {5, 2 * time.Second, overHTTP2},
	}
}

// A lab is the state shared by all comparisons.
type lab struct {
	*rig.Lab
	effort

	served  *rig.Process // the target of the part; nil if not started yet
	address string       // of it
}

func (l *lab) run() {
	var list []rig.Part
	for i, part := range l.parts {
		list = append(list, rig.Part{Name: fmt.Sprintf("part %d", i+1), Run: func() {
			l.served = nil
			part(l)
		}})
	}
	l.RunParts(list)
}

// Run runs the comparisons and prints Markdown. args may name an effort: quick, usual, all, or http2.
// Peers that are not installed are skipped with a message.
func Run(l *rig.Lab, args []string) {
	name := "usual"
	if len(args) > 0 {
		name = args[0]
	}
	e, known := efforts()[name]
	if !known || len(args) > 1 {
		rig.UsageError("speed needs quick, usual, all, http2 or no argument, not %q", args)
	}
	needs("nginx", "wrk")
	if name == "http2" {
		needs("h2load")
	}
	l.Note("%d runs of %v of each side, in turn; medians, with the minimum and maximum of the rounds' ratios "+
		"in brackets; one loop against one worker or thread, and GATE=off, unless stated otherwise", e.rounds, e.span)
	if err := rig.RequireInstalled("haproxy"); err != nil {
		l.Note("HAProxy is skipped: %v", err)
	}
	(&lab{Lab: l, effort: e}).run()
}

// needs ends the current Try, without a record, if a program is not installed.
func needs(programs ...string) {
	if err := rig.RequireInstalled(programs...); err != nil {
		rig.Check(fmt.Errorf("%w: %w", err, result.ErrNotRecorded))
	}
}

// target returns the address of the part's target; it starts nginx if there is none yet.
func (l *lab) target() (addr string) {
	if l.served == nil {
		l.served, l.address = l.StartPeer(rig.Nginx(nginxStatic), 1)
	}
	return l.address
}

// ownTarget starts our target as that of the part.
func (l *lab) ownTarget(env ...string) (addr string) {
	l.served, l.address = l.Start("target", env...)
	return l.address
}

func (l *lab) start() {
	l.Heading("Start to first answer")
	target := l.ownTarget()
	var took []time.Duration
	for range l.rounds {
		began := time.Now()
		_, addr := l.Start("proxy", "TARGET_URL=http://"+target)
		l.Scrape(addr)
		took = append(took, time.Since(began))
	}
	shown := func(v float64) time.Duration { return time.Duration(v).Round(100 * time.Microsecond) }
	spread := result.SpreadOf(took, func(d time.Duration) float64 { return float64(d) })
	l.Head("", "median", "min … max")
	l.Add("proxy | %v | %v … %v", shown(spread.Median), shown(spread.Least), shown(spread.Most))
}

// idleConnections is the number of idle clients while memory is measured.
const idleConnections = 2000

func (l *lab) memory() {
	l.Heading("Memory of the proxy")
	l.ownTarget()
	c := &l.open(ours())[0]
	resident := func() float64 { return float64(rig.Must(rig.RSS(c.Process.Pid()))) }
	atStart := resident()
	c.Measure(l.Ctx, connections, l.span) // allocates buffers
	before := resident()
	buf := make([]byte, 4096)
	for range idleConnections {
		conn := rig.Must(net.Dial("tcp", c.Addr))
		defer conn.Close()
		rig.Must(io.WriteString(conn, "GET /api/test HTTP/1.1\r\nHost: x\r\n\r\n"))
		rig.Must(io.ReadAtLeast(conn, buf, 1))
	}
	l.Head("", "value")
	l.Add("resident at start | %.1f MB", atStart/1e6)
	l.Add("per idle client connection (%d of them, each after one request) | %.1f KB", idleConnections,
		(resident()-before)/idleConnections/1e3)
}

func (l *lab) loadgen() {
	l.Heading("Load generator: lag (start − due) against the target, constant rate")
	url := "http://" + l.ownTarget("EVENT_LOOPS=1") + "/api/test"
	l.Head("rate /s", "sent", "verdict", "lag p50 µs", "p99 µs", "max µs", "latency p50 µs", "p99 µs")
	for _, rate := range []int{1000, 10_000, 50_000} {
		r := l.Load(rig.Load{URL: url, Rate: rate, For: 2 * l.span})[0]
		l.Add("%d | %d | %s | %.0f | %.0f | %.0f | %.0f | %.0f", rate, r.Sent, r.Verdict, 1e6*r.Lag.P50, 1e6*r.Lag.P99,
			1e6*r.Lag.Max, 1e6*r.LatencySuccess.P50, 1e6*r.LatencySuccess.P99)
	}
}
