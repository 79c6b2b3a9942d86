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

	"weir/bench/rig"
)

// rounds is how many pairs of runs each comparison has, span how long a run is.
const (
	rounds      = 7
	span        = 3 * time.Second
	connections = 64
)

// lab is what all comparisons share.
type lab struct {
	ctx context.Context
	out io.Writer
	dir string

	running []*rig.Process
	ending  []func() // for what ends otherwise
	headed  bool     // the comparison's table has its head
}

// Run compares and prints Markdown. What is not installed is said and left out.
func Run(ctx context.Context, out io.Writer) (err error) {
	for _, tool := range []string{"nginx", "wrk"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed: nothing to compare with (Debian: apt-get install nginx-light wrk)", tool)
		}
	}
	dir, err := os.MkdirTemp("", "weir-speed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := &lab{ctx: ctx, out: out, dir: dir}
	defer l.stop()
	l.describe()
	for _, part := range []func() error{l.throughput, l.redis, l.refusals, l.latency, l.target, l.loadgen, l.memory, l.start} {
		if err := part(); err != nil {
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

// proxy starts our proxy in front of target with a limit that lets everything
// or nearly nothing through.
func (l *lab) proxy(target string, permits, loops int) (contestant, error) {
	p, addr, err := l.keep(rig.StartProxy(l.ctx, []string{"TARGET_URL=http://" + target, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", permits),
		"RATE_LIMIT_WINDOW=3600", fmt.Sprintf("EVENT_LOOPS=%d", loops)}))
	return contestant{"weir proxy", "http://" + addr + "/api/test", p}, err
}

// plenty never runs out within an hour's window.
const plenty = 1_000_000_000

// nginxPair starts nginx as a target, and as a limiting proxy in front of it.
func (l *lab) nginxPair(workers int) (target string, proxy contestant, err error) {
	_, target, err = l.keep(nginx(l.ctx, l.dir, nginxStatic, 1))
	if err != nil {
		return "", contestant{}, err
	}
	p, addr, err := l.keep(nginx(l.ctx, l.dir, nginxLimiting, workers, target))
	return target, contestant{"nginx limit_req", "http://" + addr + "/api/test", p}, err
}

// throughput: goal 1.
func (l *lab) throughput() error {
	l.heading("Forwarding with a local limit, 64 connections kept alive, nginx as the target")
	for loops := 1; loops <= 2; loops++ {
		target, peer, err := l.nginxPair(loops)
		if err != nil {
			return err
		}
		ours, err := l.proxy(target, plenty, loops)
		if err != nil {
			return err
		}
		if err := l.compare(fmt.Sprintf("%d loop(s), %d worker(s)", loops, loops), peer, ours, false); err != nil {
			return err
		}
		l.stop()
	}
	return nil
}

// refusals: goal 3.
func (l *lab) refusals() error {
	l.heading("Refusing (429)")
	target, peer, err := l.nginxPair(1)
	if err != nil {
		return err
	}
	peer.url = "http://" + hostOf(peer.url) + "/shut"
	ours, err := l.proxy(target, 1, 1)
	if err != nil {
		return err
	}
	return l.compare("429 of a global limit", peer, ours, true)
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
	return l.compare("target", peer, contestant{"weir target", "http://" + addr + "/api/test", p}, false)
}

// compare lets two contestants take turns and prints a row.
func (l *lab) compare(what string, peer, ours contestant, refused bool) error {
	var peers, mine []sample
	for range rounds {
		for _, side := range []struct {
			c  contestant
			to *[]sample
		}{{peer, &peers}, {ours, &mine}} {
			s, err := side.c.sample(l.ctx, connections, span)
			if err != nil {
				return err
			}
			if got := float64(s.failed) / s.requests; refused && got < 0.99 || !refused && got > 0 {
				return fmt.Errorf("%s: %.1f %% of its answers are not 2xx, which makes the comparison worthless", side.c.name, 100*got)
			}
			*side.to = append(*side.to, s)
		}
	}
	rate := func(s sample) float64 { return s.perSec }
	cpu := func(s sample) float64 { return float64(s.cpu.Nanoseconds()) / 1e3 }
	if !l.headed {
		l.headed = true
		l.table("", peer.name+" /s", ours.name+" /s", "ratio (min … max)", peer.name+" CPU µs", ours.name+" CPU µs", "ratio (min … max)")
	}
	l.row(what, fmt.Sprintf("%.0f", median(peers, rate)), fmt.Sprintf("%.0f", median(mine, rate)), ratios(mine, peers, rate),
		fmt.Sprintf("%.1f", median(peers, cpu)), fmt.Sprintf("%.1f", median(mine, cpu)), ratios(mine, peers, cpu))
	return nil
}

// latency: goal 4.
func (l *lab) latency() error {
	target, peer, err := l.nginxPair(1)
	if err != nil {
		return err
	}
	ours, err := l.proxy(target, plenty, 1)
	if err != nil {
		return err
	}
	return l.latencyOf(target, peer, ours)
}

// latencyOf shows what proxies add for one client with one connection.
func (l *lab) latencyOf(target string, proxies ...contestant) error {
	l.heading("Latency added, one connection, p50")
	all := append([]contestant{{"direct", "http://" + target + "/api/test", proxies[0].process}}, proxies...)
	p50s := make([][]sample, len(all))
	for range rounds {
		for i, c := range all {
			s, err := c.sample(l.ctx, 1, span)
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
	for range rounds {
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
