// Package speed compares our programs with what others use for the same, in
// the same minutes on the same machine. What counts is the ratio: the two take
// turns, and the median of the pairs' ratios is quoted with its spread.
package speed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"weir/bench/report"
	"weir/bench/result"
	"weir/bench/rig"
	"weir/internal/service"
)

// connections is how many clients there are unless said.
const connections = 64

// An effort is how thorough a comparison is.
type effort struct {
	rounds int           // runs of each side, in turns
	span   time.Duration // of a run
	parts  []func(l *lab) error
}

// efforts are the efforts by name, the usual one under the empty name too.
func efforts() map[string]effort {
	usual := []func(l *lab) error{(*lab).throughput, (*lab).redis, (*lab).refusals, (*lab).latency, (*lab).target, (*lab).loadgen, (*lab).loadgenMost,
		(*lab).byConnections, (*lab).byGate, (*lab).byRules, (*lab).byKeys, (*lab).byProxies, (*lab).memory, (*lab).start}
	return map[string]effort{
		"quick": {3, time.Second, []func(l *lab) error{(*lab).throughput, (*lab).refusals, (*lab).start}},
		"usual": {5, time.Second, usual},
		"all":   {7, 3 * time.Second, usual},
	}
}

// lab is what all comparisons share.
type lab struct {
	ctx context.Context
	out io.Writer
	dir string
	effort

	running []*rig.Process
	ending  []func() // for what ends otherwise
}

func newLab(ctx context.Context, out io.Writer, e effort) (*lab, error) {
	dir, err := os.MkdirTemp("", "weir-speed-")
	return &lab{ctx: ctx, out: out, dir: dir, effort: e}, err
}

// end ends everything.
func (l *lab) end() {
	l.stop()
	_ = os.RemoveAll(l.dir)
}

// Run compares and prints Markdown. args may name an effort: quick, usual, all.
// What is not installed is said and left out.
func Run(ctx context.Context, args []string, out io.Writer) (err error) {
	name := "usual"
	if len(args) > 0 {
		name = args[0]
	}
	e, known := efforts()[name]
	if !known || len(args) > 1 {
		return &service.ExitError{Status: 2, Err: fmt.Errorf("speed wants quick, usual, all or nothing; got %q", args)}
	}
	if err := missingTools("nginx", "wrk"); err != nil {
		return fmt.Errorf("%w: %w", err, result.ErrNotKept)
	}
	l, err := newLab(ctx, out, e)
	if err != nil {
		return err
	}
	defer l.end()
	fmt.Fprintf(out, "%d runs of %v of each side, in turns; medians, and in brackets the least and the most of the rounds' ratios; one loop against one worker or thread, and GATE=off, unless said\n", e.rounds, e.span)
	if err := missingTools("haproxy"); err != nil {
		fmt.Fprintf(out, "\nHAProxy is left out: %v\n", err)
	}
	for _, part := range e.parts {
		if err := part(l); err != nil {
			return err
		}
		l.stop()
	}
	return nil
}

// stop ends what a part has started, the last first.
func (l *lab) stop() {
	for _, p := range slices.Backward(l.running) {
		if err := p.Stop(); err != nil {
			fmt.Fprintln(l.out, "\n"+err.Error())
		}
	}
	for _, end := range l.ending {
		end()
	}
	l.running, l.ending = nil, nil
}

func (l *lab) keep(p *rig.Process, addr string, err error) (*rig.Process, string, error) {
	if err == nil {
		l.running = append(l.running, p)
	}
	return p, addr, err
}

// plenty never runs out within an hour's window.
const plenty = 1_000_000_000

// weir starts our proxy in front of target with one loop and a limit that lets
// everything through; env may say otherwise.
func (l *lab) weir(name, target string, env ...string) (contestant, error) {
	return l.contestant(name)(rig.StartProxy(l.ctx, append([]string{"GATE=off", "TARGET_URL=http://" + target, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", plenty),
		"RATE_LIMIT_WINDOW=3600", "EVENT_LOOPS=1"}, env...)))
}

// contestant keeps what was started as a contestant of that name.
func (l *lab) contestant(name string) func(p *rig.Process, addr string, err error) (contestant, error) {
	return func(p *rig.Process, addr string, err error) (contestant, error) {
		p, addr, err = l.keep(p, addr, err)
		return contestant{name: name, url: "http://" + addr + "/api/test", process: p}, err
	}
}

// field starts nginx as a target, and in front of it nginx and HAProxy as
// limiting proxies, the latter where it is installed.
func (l *lab) field(workers int) (target string, peers []contestant, err error) {
	if _, target, err = l.keep(nginx(l.ctx, l.dir, nginxStatic, 1)); err != nil {
		return "", nil, err
	}
	peer, err := l.contestant("nginx limit_req")(nginx(l.ctx, l.dir, nginxLimiting, workers, target))
	if err != nil || missingTools("haproxy") != nil {
		return target, []contestant{peer}, err
	}
	second, err := l.contestant("HAProxy stick-table")(haproxy(l.ctx, l.dir, workers, target))
	return target, []contestant{peer, second}, err
}

// throughput: what forwarding costs.
func (l *lab) throughput() error {
	for loops := 1; loops <= 2; loops++ {
		l.heading(fmt.Sprintf("Forwarding with a local limit, %d connections kept alive, nginx as the target, %d loop(s) against %d worker(s)", connections, loops, loops))
		target, peers, err := l.field(loops)
		if err != nil {
			return err
		}
		ours, err := l.weir("weir proxy", target, fmt.Sprintf("EVENT_LOOPS=%d", loops))
		if err != nil {
			return err
		}
		if err := l.compare(peers, ours, connections, false); err != nil {
			return err
		}
		l.stop()
	}
	return nil
}

// refusals: what refusing costs.
func (l *lab) refusals() error {
	l.heading("Refusing (429)")
	target, peers, err := l.field(1)
	if err != nil {
		return err
	}
	for i := range peers {
		peers[i].url = "http://" + hostOf(peers[i].url) + "/shut"
	}
	ours, err := l.weir("weir proxy", target, "RATE_LIMIT_LIMIT=1")
	if err != nil {
		return err
	}
	return l.compare(peers, ours, connections, true)
}

// target: how fast our target answers.
func (l *lab) target() error {
	l.heading("Plain 200 OK")
	peer, err := l.contestant("nginx static")(nginx(l.ctx, l.dir, nginxStatic, 1))
	if err != nil {
		return err
	}
	ours, err := l.contestant("weir target")(rig.StartTargetAt(l.ctx, []string{"EVENT_LOOPS=1"}))
	if err != nil {
		return err
	}
	return l.compare([]contestant{peer}, ours, connections, false)
}

// latency: what proxies add.
func (l *lab) latency() error {
	target, peers, err := l.field(1)
	if err != nil {
		return err
	}
	ours, err := l.weir("weir proxy", target)
	if err != nil {
		return err
	}
	return l.latencyOf(target, append(peers, ours)...)
}

// latencyOf shows what proxies add for one client with one connection.
func (l *lab) latencyOf(target string, proxies ...contestant) error {
	l.heading("Latency added by " + proxies[0].name + " and " + proxies[len(proxies)-1].name + ", one connection, p50")
	all := append([]contestant{{name: "direct", url: "http://" + target + "/api/test", process: proxies[0].process}}, proxies...)
	runs, err := l.turns(all, 1)
	if err != nil {
		return err
	}
	base := report.MedianOf(runs[0], p50)
	l.table("", "p50 µs", "added µs")
	for i, c := range all {
		l.row(c.name, medianOf(runs[i], 0, p50), fmt.Sprintf("%.0f", report.MedianOf(runs[i], p50)-base))
	}
	return nil
}

// hostOf is the host:port of one of our URLs.
func hostOf(url string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return host
}

// start: how long our proxy takes until it answers.
func (l *lab) start() error {
	l.heading("Start to first answer")
	_, target, err := l.keep(rig.StartTargetAt(l.ctx, nil))
	if err != nil {
		return err
	}
	var took []time.Duration
	for range l.rounds {
		began := time.Now()
		proxy, addr, err := rig.StartProxy(l.ctx, []string{"TARGET_URL=http://" + target})
		if err != nil {
			return err
		}
		_, err = rig.Scrape(l.ctx, addr)
		took = append(took, time.Since(began))
		if err = errors.Join(err, proxy.Stop()); err != nil {
			return err
		}
	}
	shown := func(v float64) time.Duration { return time.Duration(v).Round(100 * time.Microsecond) }
	spread := report.SpreadOf(took, func(d time.Duration) float64 { return float64(d) })
	l.table("", "median", "min … max")
	l.row("proxy", shown(spread.Median).String(), fmt.Sprintf("%v … %v", shown(spread.Least), shown(spread.Most)))
	return nil
}
