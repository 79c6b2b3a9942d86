// Package attack attacks a proxy that also serves good traffic, and measures the effect
// on the good traffic, the cost of an attacker, and how soon the proxy gets rid of it. HTTP/2
// attackers (http2.go) use published attacks, and floods of frames that cost the sender nothing.
// Other attacks try to take more than their share of what all clients share (shares.go);
// of these only the effect on a good client is measured.
//
// The proxy and the generator of the good traffic are separate processes; the attackers
// run in this one. All share the machine, so attackers are paced (attacks.go), and the CPU
// time of both sides is reported.
package attack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/bench/lab/rig"
	"weir/internal/test/freeport"
)

const (
	calm         = time.Second     // before the attack
	grace        = 2 * time.Second // how much longer than its timeout an attacker may stay connected
	canaryWait   = 2 * time.Second // how long the request after an attack may take
	attackersMax = 10_000          // at the same time, if descriptors allow
)

// A scene is what attacks have in common: the settings of the proxy, its target, and the good
// traffic. It is first played without attackers, as the baseline.
type scene struct {
	target   func(l *rig.Lab, r *row) (addr string)
	settings []string // all others are defaults
	rules    string
	good     rig.Load      // its URL is a path
	base     time.Duration // length of the baseline
	stored   bool          // only good requests that the limit refuses count, which must be delivered later
	attacks  []attack
	bounded  bool // the proxy's memory may grow only as row.memoryMax says
}

// Run plays the named attacks, or all, and prints tables. It misses an expectation if the effect on
// good requests was too large, attackers stayed connected, or the proxy ended or had a fault.
func Run(l *rig.Lab, names []string) {
	most := rig.Must(attackers())
	var rows []*row
	play := func(s *scene, a attack) *row {
		r := &row{attack: &a, scene: s}
		rig.Section(a.name, func() { rig.Check(l.Run(l.Ctx, func() { r.play(l) })) })
		return r
	}
	var parts []rig.Part
	for _, s := range scenes(most) {
		base := sync.OnceValue(func() *row { return play(&s, attack{name: baseline}) })
		for _, a := range s.attacks {
			parts = append(parts, rig.Part{Name: a.name, Run: func() {
				without := base()
				judged := func() *row {
					r := play(&s, a)
					r.base = without
					r.findControl(rows)
					fmt.Fprintf(l, "  %s\n", r.line())
					return r
				}
				r := judged()
				if r.slow() {
					r = middle(r, judged(), judged())
				}
				rows = append(rows, r)
			}})
		}
	}
	chosen := rig.Choose("attack", parts, expand(names, parts))
	l.Note("Up to %d attackers from %d addresses. Pacing: at most %d connections opened and %d pieces sent per second; "+
		"large messages less often, by their size.",
		most, addresses, fastOpens, most*int(time.Second/time.Millisecond)/int(everyPiece/time.Millisecond))
	for _, p := range chosen {
		p.Run()
	}
	show(l, rows)
}

// expand replaces the name of the group of HTTP/2 attacks by the names of its attacks and their controls.
func expand(names []string, all []rig.Part) (list []string) {
	var ofGroup []string
	for _, p := range all {
		if strings.HasPrefix(p.Name, groupPrefix) || strings.HasPrefix(p.Name, controlPrefix) {
			ofGroup = append(ofGroup, p.Name)
		}
	}
	for _, name := range names {
		if name == group {
			list = append(list, ofGroup...)
		} else {
			list = append(list, name)
		}
	}
	return list
}

// scenes returns all attacks for up to most attackers at the same time.
func scenes(most int) []scene { return append([]scene{costs(most), overHTTP2()}, shares()...) }

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
func Target(l *rig.Lab, args []string) {
	if len(args) != 1 {
		rig.UsageError("the target of attacks needs its address")
	}
	rig.Check(rig.Serve(l.Ctx, args[0], rig.FaultyTarget()))
}

// separate starts that target as a process of its own.
func separate(l *rig.Lab, _ *row) string {
	addr := rig.Must(freeport.Addr())
	l.StartForeign("target", addr, rig.Must(os.Executable()), TargetName, addr)
	return addr
}

// play runs the attack: a new proxy, good traffic, attackers.
func (r *row) play(l *rig.Lab) {
	a, s := r.attack, r.scene
	v := l.StartApart(a.files, s.env(l, s.target(l, r))...)
	ours := ownCPU()
	attacking, over := context.WithCancel(l.Ctx)
	defer over()
	opening, enough := context.WithCancel(attacking)
	defer enough()
	c := newFleet(a, v.Addr)
	c.done.Go(func() {
		if a.conns > 0 && rig.Wait(opening, a.after()) == nil {
			c.open(opening, attacking)
		}
	})
	err := rig.Catch(func() {
		rig.MeasureUsage(v.Pid(), &r.usage, func() {
			r.load = l.Load(s.load(v.Addr, a))[0]
			enough()
			r.attackersCPU = ownCPU() - ours
		})
		if s.stored {
			r.awaitDeliveries(l.Ctx)
		}
		if a.life == 0 { // attackers may stay, so they disconnect
			over()
		}
		r.awaitCalm(l.Ctx, v, c)
	})
	over()
	c.done.Wait()
	r.tally = c.snapshot()
	if v.Ended() && l.Ctx.Err() == nil {
		r.crash = fmt.Sprintf("the proxy ended (%v): %s", v.ProcessState, v.Output())
		return
	}
	rig.Check(err)
	if err := v.Stop(); err != nil {
		r.crash = err.Error()
	}
	rig.Check(l.Ctx.Err())
}

// env returns the settings of the proxy before a target.
func (s *scene) env(l *rig.Lab, target string) []string {
	env := append([]string{"TARGET_URL=http://" + target}, s.settings...)
	if s.rules != "" {
		env = append(env, l.Rules(s.rules))
	}
	if s.stored {
		env = append(env, "DEFER_URL=file:"+filepath.Join(l.Dir, "queue"))
	}
	return env
}

// load returns the good traffic during an attack on the proxy at addr.
func (s *scene) load(addr string, a *attack) rig.Load {
	load := s.good
	load.URL = "http://" + addr + load.URL
	if a.conns == 0 {
		load.For = s.base
	}
	if a.lead > 0 {
		load.StartAt = time.Now().Add(a.lead)
	}
	return load
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// awaitCalm waits until the attackers of proxy v are gone, or should be, and checks it. Those of
// attacks with a goal may stay, and what they held may be released a moment later.
func (r *row) awaitCalm(ctx context.Context, v *rig.Proxy, c *fleet) {
	began := time.Now()
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
		since := c.snapshot().last // an attacker may have been connecting when no more were to
		if since.IsZero() || c.life == 0 {
			since = began
		}
		r.gone = time.Since(since)
		if err == nil && (r.left == 0 || c.goal > 0) || r.gone > c.life+grace || ctx.Err() != nil {
			break
		}
		_ = rig.Wait(ctx, 20*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, canaryWait)
	defer cancel()
	for again := true; again; {
		http.DefaultClient.CloseIdleConnections() // the canary is a new client
		r.canary = ""
		if _, err := rig.Get(ctx, "http://"+v.Addr+"/api/test"); err != nil {
			r.canary = err.Error()
		}
		again = r.canary != "" && c.goal > 0 && rig.Wait(ctx, 100*time.Millisecond) == nil
	}
}
