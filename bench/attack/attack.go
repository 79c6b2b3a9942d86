// Package attack attacks a proxy that also serves good traffic, and measures the effect
// on the good traffic, the cost of an attacker, and how soon the proxy gets rid of it.
//
// The proxy, the target and the generator of the good traffic are separate processes; the
// attackers run in this one. All share the machine, so attackers are paced (attacks.go),
// and the CPU time of both sides is reported.
package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
	"weir/internal/freeport"
)

const (
	rate         = 500 // good requests per second
	connections  = 16  // of the good traffic
	span         = 10 * time.Second
	calm         = time.Second     // before the attack
	grace        = 2 * time.Second // how much longer than its timeout an attacker may stay connected
	canaryWait   = 2 * time.Second // how long the request after an attack may take
	attackersMax = 10_000          // at the same time, if descriptors allow
)

// Run plays the named attacks, or all, and prints a table. It fails if good requests failed,
// attackers stayed connected, or the proxy ended or had a fault.
func Run(ctx context.Context, names []string, out io.Writer) error {
	var l rig.Lab
	return l.Run(ctx, func() {
		most, target := rig.Must(attackers()), rig.Must(freeport.Addr())
		var rows []*row // the first is the baseline
		part := func(a attack) rig.Part {
			return rig.Part{Name: a.name, Play: func() {
				r, alone := &row{attack: &a}, new(rig.Lab)
				rig.Check(alone.Run(l.Ctx, func() { r.play(alone, target) }))
				rows = append(rows, r)
				fmt.Fprintf(out, "  %s\n", r.line(rows[0]))
			}}
		}
		chosen := rig.Must(rig.Choose("attack", report.Map(attacks(most), part), names))
		l.StartForeign("target", target, rig.Must(os.Executable()), TargetName, target)
		fmt.Fprintf(out, "%d good requests per second for %v, during each attack, on a separate proxy; up to %d attackers from %d addresses.\n"+
			"Settings: %s; all others are defaults.\nPacing: at most %d connections opened and %d pieces sent per second; large messages less often, by their size.\n\n",
			rate, span, most, addresses, strings.Join(settings, " "), fastOpens, most*int(time.Second/time.Millisecond)/int(everyPiece/time.Millisecond))
		for _, p := range append([]rig.Part{part(attack{name: "none"})}, chosen...) {
			rig.In(p.Name, p.Play)
		}
		rig.Check(show(out, rows))
	})
}

// attackers returns how many attackers are possible: the proxy keeps a descriptor for the target
// in addition to each client's, and the good traffic needs some.
func attackers() (int, error) {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return 0, fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	const others = 1000
	most := min(attackersMax, int(min(lim.Cur, 1<<20))/2-others)
	if most < 100 {
		return 0, fmt.Errorf("RLIMIT_NOFILE is %d, which is too low for an attack; it must be at least 2200", lim.Cur)
	}
	return most, nil
}

// TargetName is the command of bench that runs the target of attacks.
const TargetName = "attack-target"

// Target serves that target at the address in args until ctx ends.
func Target(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) != 1 {
		return errors.New("the target of attacks needs its address")
	}
	return rig.Serve(ctx, args[0], rig.Misbehaviour())
}

// play runs the attack: a new proxy, good traffic, attackers.
func (r *row) play(l *rig.Lab, target string) {
	a := r.attack
	v := l.StartApart(a.files, append([]string{"TARGET_URL=http://" + target}, settings...)...)
	ours := ownCPU()
	attacking, over := context.WithCancel(l.Ctx)
	defer over()
	opening, enough := context.WithCancel(attacking)
	defer enough()
	c := newFleet(a, v.Addr)
	c.done.Go(func() {
		if a.conns > 0 && rig.Wait(opening, calm) == nil {
			c.open(opening, attacking)
		}
	})
	err := rig.Try(func() {
		rig.Watch(v.Pid(), &r.usage, func() {
			r.load = l.Load(rig.Load{URL: "http://" + v.Addr + "/api/test", Rate: rate, For: span, Connections: connections})[0]
			enough()
			r.attackersCPU = ownCPU() - ours
		})
		if a.life == 0 { // attackers may stay, so they disconnect
			over()
		}
		r.awaitCalm(l.Ctx, v, c)
	})
	over()
	c.done.Wait()
	r.tally = c.snapshot()
	if ended, how := v.Ended(); ended && l.Ctx.Err() == nil {
		r.crash = fmt.Sprintf("the proxy ended (%v): %s", how, v.Output())
		return
	}
	rig.Check(err)
	if err := v.Stop(); err != nil {
		r.crash = err.Error()
	}
	rig.Check(l.Ctx.Err())
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// awaitCalm waits until the attackers of proxy v are gone, or should be, and checks it.
func (r *row) awaitCalm(ctx context.Context, v *rig.Proxy, c *fleet) {
	since := c.snapshot().last
	if since.IsZero() || c.life == 0 {
		since = time.Now()
	}
	for {
		m, err := rig.Scrape(ctx, v.Admin)
		if err != nil {
			r.silent = err.Error()
		} else {
			r.silent = ""
			r.left = int(m.Sum("ratelimiter_client_connections"))
			r.capped = int(m.Sum("ratelimiter_client_connections_refused_total"))
			r.panics = int(m.Sum("ratelimiter_panics_total"))
		}
		r.gone = time.Since(since)
		if err == nil && r.left == 0 || r.gone > c.life+grace || ctx.Err() != nil {
			break
		}
		_ = rig.Wait(ctx, 20*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, canaryWait)
	defer cancel()
	http.DefaultClient.CloseIdleConnections() // the canary is a new client
	if _, err := rig.Get(ctx, "http://"+v.Addr+"/api/test"); err != nil {
		r.canary = err.Error()
	}
}
