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
	"os/exec"
	"slices"
	"strings"
	"time"

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
	for _, tool := range []string{"nginx", "wrk"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed, so there is nothing to compare with; make bench-setup installs it: %w", tool, result.ErrNotKept)
		}
	}
	dir, err := os.MkdirTemp("", "weir-speed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := &lab{ctx: ctx, out: out, dir: dir, effort: e}
	defer l.stop()
	fmt.Fprintf(out, "%d runs of %v of each side, in turns; medians, and in brackets the least and the most of the rounds' ratios; one loop against one worker or thread, and GATE=off, unless said\n", e.rounds, e.span)
	l.missing()
	for _, part := range e.parts {
		if err := part(l); err != nil {
			return err
		}
		l.stop()
	}
	return nil
}

// missing names the peers that are not there.
func (l *lab) missing() {
	if _, err := exec.LookPath("haproxy"); err != nil {
		fmt.Fprintln(l.out, "\nNot installed, so left out: HAProxy (make bench-setup installs it)")
	}
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

// proxy starts our proxy in front of target with a limit that lets everything
// or nearly nothing through.
func (l *lab) proxy(target string, permits, loops int) (contestant, error) {
	p, addr, err := l.keep(rig.StartProxy(l.ctx, []string{"GATE=off", "TARGET_URL=http://" + target, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", permits),
		"RATE_LIMIT_WINDOW=3600", fmt.Sprintf("EVENT_LOOPS=%d", loops)}))
	return contestant{"weir proxy", "http://" + addr + "/api/test", p}, err
}

// plenty never runs out within an hour's window.
const plenty = 1_000_000_000

// field starts nginx as a target, and in front of it nginx and HAProxy as
// limiting proxies, the latter where it is installed.
func (l *lab) field(workers int) (target string, peers []contestant, err error) {
	if _, target, err = l.keep(nginx(l.ctx, l.dir, nginxStatic, 1)); err != nil {
		return "", nil, err
	}
	p, addr, err := l.keep(nginx(l.ctx, l.dir, nginxLimiting, workers, target))
	if err != nil {
		return "", nil, err
	}
	peers = append(peers, contestant{"nginx limit_req", "http://" + addr + "/api/test", p})
	if _, missing := exec.LookPath("haproxy"); missing != nil {
		return target, peers, nil
	}
	p, addr, err = l.keep(haproxy(l.ctx, l.dir, workers, target))
	return target, append(peers, contestant{"HAProxy stick-table", "http://" + addr + "/api/test", p}), err
}

// throughput: goal 1.
func (l *lab) throughput() error {
	for loops := 1; loops <= 2; loops++ {
		l.heading(fmt.Sprintf("Forwarding with a local limit, %d connections kept alive, nginx as the target, %d loop(s) against %d worker(s)", connections, loops, loops))
		target, peers, err := l.field(loops)
		if err != nil {
			return err
		}
		ours, err := l.proxy(target, plenty, loops)
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

// refusals: goal 3.
func (l *lab) refusals() error {
	l.heading("Refusing (429)")
	target, peers, err := l.field(1)
	if err != nil {
		return err
	}
	for i := range peers {
		peers[i].url = "http://" + hostOf(peers[i].url) + "/shut"
	}
	ours, err := l.proxy(target, 1, 1)
	if err != nil {
		return err
	}
	return l.compare(peers, ours, connections, true)
}

// target: goal 6.
func (l *lab) target() error {
	l.heading("Plain 200 OK")
	p, addr, err := l.keep(nginx(l.ctx, l.dir, nginxStatic, 1))
	if err != nil {
		return err
	}
	peer := contestant{"nginx static", "http://" + addr + "/api/test", p}
	p, addr, err = l.keep(rig.StartTargetAt(l.ctx, []string{"EVENT_LOOPS=1"}))
	if err != nil {
		return err
	}
	return l.compare([]contestant{peer}, contestant{"weir target", "http://" + addr + "/api/test", p}, connections, false)
}

// latency: goal 4.
func (l *lab) latency() error {
	target, peers, err := l.field(1)
	if err != nil {
		return err
	}
	ours, err := l.proxy(target, plenty, 1)
	if err != nil {
		return err
	}
	return l.latencyOf(target, append(peers, ours)...)
}

// latencyOf shows what proxies add for one client with one connection.
func (l *lab) latencyOf(target string, proxies ...contestant) error {
	l.heading("Latency added by " + proxies[0].name + " and " + proxies[len(proxies)-1].name + ", one connection, p50")
	all := append([]contestant{{"direct", "http://" + target + "/api/test", proxies[0].process}}, proxies...)
	p50s := make([][]sample, len(all))
	for range l.rounds {
		for i, c := range all {
			s, err := c.sample(l.ctx, 1, l.span)
			if err != nil {
				return err
			}
			p50s[i] = append(p50s[i], s)
		}
	}
	us := func(s sample) float64 { return float64(s.p50.Nanoseconds()) / 1e3 }
	base := median(p50s[0], us)
	l.table("", "p50 µs", "added µs")
	for i, c := range all {
		v := median(p50s[i], us)
		l.row(c.name, fmt.Sprintf("%.0f", v), fmt.Sprintf("%.0f", v-base))
	}
	return nil
}

// hostOf is the host:port of one of our URLs.
func hostOf(url string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return host
}

// start: goal 8.
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
	slices.Sort(took)
	l.table("", "median", "min … max")
	l.row("proxy", took[len(took)/2].Round(100*time.Microsecond).String(),
		fmt.Sprintf("%v … %v", took[0].Round(100*time.Microsecond), took[len(took)-1].Round(100*time.Microsecond)))
	return nil
}
