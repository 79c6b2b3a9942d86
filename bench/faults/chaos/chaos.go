// Package chaos runs many clients, a third of which use HTTP/2, through a proxy to a target
// that misbehaves, is reached by HTTP/1.1 and by HTTP/2, and is restarted now and then, while
// the limit is changed. Every request has a unique id that the answer repeats, so an answer sent
// to the wrong client is detected. At the end the counts of clients, proxy and target must
// agree, and the proxy must hold no more resources than before.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/bench/lab/rig"
)

const (
	exchangesUsual = 1_000_000
	exchangesLeast = 20_000
	clients        = 48
	restarts       = 8 // of the target per exchangesUsual; at least 1
	limitChanges   = 6
	seed           = 1
	warmUp         = 20 // one in so many exchanges comes before the baseline
	settleMax      = 20 * time.Second
	problemsMax    = 20 // of clients; more end the run
)

// settings are those of the proxy. The limit is not reached until it is lowered, and the whole
// run falls into one window. Idle connections and stalled tunnels are closed soon, so that the
// proxy returns to the baseline.
var settings = []string{
	"RATE_LIMIT_LIMIT=1000000000", "RATE_LIMIT_WINDOW=3153600000", "TARGET_IDLE_TIMEOUT=2s", "DRAIN_GRACE=100ms",
	"WRITE_TIMEOUT=3s", "TUNNEL_TIMEOUT=10s", "HTTP2=all",
	"GATE_WAIT=1m", // the target is slow on purpose, which should not shed requests
}

// A run is one run of the experiment.
//
// Safe for concurrent use: counters are atomic, mu guards the problems.
type run struct {
	ctx       context.Context
	giveUp    func() // cancels ctx
	target    *target
	proxy     *rig.Proxy
	restarts  int // of the target
	exchanges atomic.Int64
	clients   []*client

	mu       sync.Mutex
	problems []string
}

// Run plays 10^6 exchanges, or the number in args.
func Run(l *rig.Lab, args []string) {
	n := rig.NumberArg{What: "exchanges", Usual: exchangesUsual, Least: exchangesLeast, Most: math.MaxInt32}.Read(args)
	ctx, cancel := context.WithCancel(l.Ctx)
	r := &run{ctx: ctx, giveUp: cancel, restarts: max(1, restarts*n/exchangesUsual),
		target: &target{addrs: [2]string{"127.0.0.1:0", "127.0.0.1:0"}, wasReset: make(map[string]bool)}}
	rig.Check(r.target.listen())
	l.Cleanup(r.target.stop) // what was started by the last restart
	urls := "TARGET_URL=http://" + r.target.addrs[0] + ",h2c://" + r.target.addrs[1]
	r.proxy = l.StartApart(0, append([]string{urls}, settings...)...)
	for i := range clients {
		r.clients = append(r.clients,
			&client{run: r, number: i, mayLeave: i%4 == 0, http2: i%3 == 0, r: rand.New(rand.NewPCG(seed, uint64(i)))})
	}
	r.play(l, n)
}

func (r *run) play(l *rig.Lab, n int) {
	l.Note("%d exchanges of %d clients, %d restarts of the target, %d changes of the limit; seed %d", n,
		clients, r.restarts, limitChanges, seed)
	began := time.Now()
	var base, end resources
	err := rig.Catch(func() {
		rig.While(5*time.Second, func() { r.printProgress(l, n, time.Since(began)) }, func() { base, end = r.parts(n) })
	})
	if len(r.failures()) >= problemsMax {
		r.judge(l)
	}
	rig.Check(err)
	b := r.collect()
	stopped := r.proxy.Stop()
	rig.Check(errors.Join(rig.Catch(func() { r.report(l, b, [2]resources{base, end}, time.Since(began)) }), stopped))
}

// parts plays n exchanges: first those before the baseline, then the others with disturbances.
func (r *run) parts(n int) (base, end resources) {
	base = r.part(n/warmUp, func(h resources) bool { return h.Clients+h.Targets+h.InFlight == 0 })
	rig.Parallel(2, func(i int) {
		if i == 0 {
			r.disturb(n/warmUp, n)
		} else {
			end = r.part(n-n/warmUp, func(h resources) bool { return len(h.grown(base)) == 0 })
		}
	})
	return base, end
}

// part plays n exchanges, waits until the proxy is idle and returns what it holds then.
func (r *run) part(n int, idle func(resources) bool) resources {
	rig.Parallel(clients, func(i int) {
		c := r.clients[i]
		share := (i+1)*n/clients - i*n/clients
		for last := c.asked + share; c.asked < last && r.ctx.Err() == nil; {
			if err := c.talk(last - c.asked); err != nil {
				r.fail(err)
			}
		}
		c.hangUp()
	})
	rig.Check(r.ctx.Err())
	return r.settle(idle)
}

// fail records a problem of a client; too many end the run.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.problems) < problemsMax && r.ctx.Err() == nil {
		r.problems = append(r.problems, err.Error())
	}
	if len(r.problems) == problemsMax {
		r.giveUp()
	}
}

func (r *run) failures() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problems
}

// settle waits until idle is true of the proxy's resources, and still is after a second, in which
// what belongs to the connections is released, too. It returns the resources then, or after settleMax.
func (r *run) settle(idle func(resources) bool) resources {
	pause := 100 * time.Millisecond
	for end := time.Now().Add(settleMax); ; {
		h := r.resources()
		quiet := idle(h)
		if time.Now().After(end) || quiet && pause == time.Second {
			return h
		}
		if pause = 100 * time.Millisecond; quiet {
			pause = time.Second
		}
		rig.Check(rig.Wait(r.ctx, pause))
	}
}

func (r *run) resources() (h resources) {
	if r.proxy.Ended() {
		rig.Check(fmt.Errorf("the proxy ended (%v):\n%s", r.proxy.ProcessState, r.proxy.Output()))
	}
	m := rig.Must(rig.Scrape(r.ctx, r.proxy.Admin))
	h.Goroutines, h.Clients = int(m.Sum("go_goroutines")), int(m.Sum("ratelimiter_client_connections"))
	h.Targets, h.InFlight = int(m.Sum("ratelimiter_upstream_connections")), int(m.Sum("ratelimiter_upstream_in_flight"))
	h.Descriptors, h.RSS = rig.Must(rig.Descriptors(r.proxy.Pid())), rig.Must(rig.RSS(r.proxy.Pid()))
	return h
}

// disturb restarts the target and changes the limit after shares of the exchanges.
func (r *run) disturb(from, to int) {
	share := func(i, of int) int64 { return int64(from + (to-from)*i/(of+1)) }
	limited := 0
	for restarted := 0; restarted < r.restarts || limited < limitChanges; {
		if rig.Wait(r.ctx, 5*time.Millisecond) != nil {
			return
		}
		done := r.exchanges.Load()
		if restarted < r.restarts && done >= share(restarted+1, r.restarts) {
			restarted++
			if err := r.target.restart(r.ctx); err != nil {
				r.fail(fmt.Errorf("restart the target: %w", err))
				return
			}
		}
		// Changes come in pairs: for a short time everything is refused.
		if limited < limitChanges && done >= share(limited/2*2+1, limitChanges)+int64(limited%2*(to-from)/50) {
			limited++
			body := fmt.Sprintf(`{"algorithm":"fixed","limit":%d,"window":3153600000}`, []int{1_000_000_000, 1}[limited%2])
			// what was consumed is kept
			if _, err := rig.Post(r.ctx, "http://"+r.proxy.Admin+"/config/limits", body); err != nil {
				r.fail(fmt.Errorf("change the limit: %w", err))
			}
		}
	}
}

func (r *run) printProgress(out io.Writer, n int, after time.Duration) {
	done := r.exchanges.Load()
	fmt.Fprintf(out, "  %3.0f s  %8d exchanges (%2d %%), %5.0f/s, %d restarts, %d problems\n", after.Seconds(), done,
		100*done/int64(n),
		float64(done)/after.Seconds(), r.target.restarts.Load(), len(r.failures()))
}

func (r *run) collect() *counts {
	b := &counts{proxy: rig.Must(rig.Scrape(r.ctx, r.proxy.Admin)), seen: r.target.seen.Load(),
		seenHTTP2: r.target.seenHTTP2.Load(), served: r.target.served.Load(), malformed: r.target.malformed.Load()}
	for _, c := range r.clients {
		for status, n := range c.tally.byStatus {
			b.clients.byStatus[status] += n
		}
		b.clients.cut += c.tally.cut
		b.clients.lost += c.tally.lost
	}
	return b
}

func (r *run) report(l *rig.Lab, b *counts, h [2]resources, took time.Duration) {
	l.Note("%d exchanges in %.0f s", r.exchanges.Load(), took.Seconds())
	t, sum := &b.clients, b.proxy.Sum
	l.Head("clients read", "200", "of them cut", "tunnels", "429", "501", "502", "503", "not waited for")
	l.Add("| %d | %d | %d | %d | %d | %d | %d | %d", t.byStatus[200], t.cut, t.byStatus[101], t.byStatus[429],
		t.byStatus[501], t.byStatus[502], t.byStatus[503], t.lost)
	l.Head("proxy", "forwarded", "rejected", "abandoned", "repeated", "failed at the target", "answered", "target saw",
		"by HTTP/2", "served", "clients paused", "stalled")
	l.Add("| %.0f | %.0f | %.0f | %.0f | %.0f | %v | %d | %d | %d | %.0f | %.0f",
		sum("ratelimiter_requests_total", `decision="forwarded"`), sum("ratelimiter_requests_total", `decision="rejected"`),
		sum("ratelimiter_requests_abandoned_total"), sum("ratelimiter_upstream_retries_total"),
		sum("ratelimiter_upstream_errors_total"), b.answered(), b.seen, b.seenHTTP2, b.served,
		sum("ratelimiter_client_pauses_total"), sum("ratelimiter_client_stalls_total"))
	l.Head("the proxy holds", "descriptors", "goroutines", "clients' connections", "to the target", "RSS MB")
	for i, when := range []string{"in the baseline", "at the end"} {
		l.Add("%s | %d | %d | %d | %d | %.0f", when, h[i].Descriptors, h[i].Goroutines, h[i].Clients, h[i].Targets,
			float64(h[i].RSS)/1e6)
	}
	b.audit(&l.Expectations)
	r.judge(l, slices.Concat(h[0].grown(h[0]), h[1].grown(h[0]))...)
}

// judge concludes, also from the problems of clients and others.
func (r *run) judge(l *rig.Lab, found ...string) {
	for _, text := range append(r.failures(), found...) {
		l.Never(true, "%s", text)
	}
	l.Conclude("every answer went to the right client, the counts agree, and the proxy released all resources.", nil)
}
