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

	"weir/bench/rig"
	"weir/internal/freeport"
	"weir/internal/service"
)

const (
	rate        = 500 // good requests per second …
	connections = 16  // … over so many connections
	span        = 10 * time.Second
	// calm is how long the good traffic runs before the attackers come.
	calm = time.Second
	// grace is how much longer than its timeout an attacker may be there.
	grace = 2 * time.Second
	// attackersMax is how many attack at the same time, if descriptors allow.
	attackersMax = 10_000
)

// Run plays the attacks named, or all, and prints a table. The error says what
// must not be: good requests that failed, attackers that stayed, a proxy that
// ended or had a fault.
func Run(ctx context.Context, names []string, out io.Writer) error {
	most, err := attackers()
	if err != nil {
		return err
	}
	chosen, err := choose(attacks(most), names)
	if err != nil {
		return err
	}
	target, stop, err := startTarget(ctx)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintf(out, "%d good requests per second for %v, beside each attack on a proxy of its own; up to %d attackers from %d addresses.\n"+
		"Settings: %s; all others by default.\nPaced: at most %d connections opened and %d pieces sent per second; the bombs less, by their size.\n\n",
		rate, span, most, addresses, strings.Join(settings, " "), fastOpens, most*int(time.Second/time.Millisecond)/int(everyPiece/time.Millisecond))
	base, err := play(ctx, &attack{name: "none"}, target)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %s\n", base.line(base))
	rows := []*row{base}
	for i := range chosen {
		r, err := play(ctx, &chosen[i], target)
		if err != nil {
			return fmt.Errorf("%s: %w", chosen[i].name, err)
		}
		rows = append(rows, r)
		fmt.Fprintf(out, "  %s\n", r.line(base))
	}
	return show(out, rows)
}

// attackers is how many there can be: the proxy keeps a descriptor for the
// target beside each client's, and the good traffic needs its own.
func attackers() (int, error) {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return 0, fmt.Errorf("look at RLIMIT_NOFILE: %w", err)
	}
	const others = 1000
	most := min(attackersMax, int(min(lim.Cur, 1<<20))/2-others)
	if most < 100 {
		return 0, fmt.Errorf("RLIMIT_NOFILE is %d: too few descriptors for an attack; allowed: 2200 and more", lim.Cur)
	}
	return most, nil
}

// choose is the attacks named, in their order; all when none is named.
func choose(all []attack, names []string) (chosen []attack, err error) {
	if len(names) == 0 {
		return all, nil
	}
	byName, known := make(map[string]attack), make([]string, 0, len(all))
	for _, a := range all {
		byName[a.name] = a
		known = append(known, a.name)
	}
	for _, name := range names {
		a, ok := byName[name]
		if !ok {
			return nil, &service.ExitError{Status: 2, Err: fmt.Errorf("there is no attack %q; allowed: %s", name, strings.Join(known, ", "))}
		}
		chosen = append(chosen, a)
	}
	return chosen, nil
}

// TargetName is how bench calls itself to be the target of attacks.
const TargetName = "attack-target"

// Target is that target, at the address in args, until ctx ends.
func Target(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) != 1 {
		return errors.New("the target of attacks wants its address")
	}
	return rig.Serve(ctx, args[0], rig.Misbehaviour())
}

// startTarget starts the target as a process of its own.
func startTarget(ctx context.Context) (addr string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	if addr, err = freeport.Addr(); err != nil {
		return "", nil, err
	}
	p, err := rig.StartServing(ctx, "target", addr, self, TargetName, addr)
	if err != nil {
		return "", nil, err
	}
	return addr, p.Kill, nil
}

// play is one attack: a fresh proxy, good traffic, attackers.
func play(ctx context.Context, a *attack, target string) (_ *row, err error) {
	started, err := rig.StartApart(ctx, a.files, append([]string{"TARGET_URL=http://" + target}, settings...))
	if err != nil {
		return nil, err
	}
	v := victim{started}
	defer v.Kill()
	r := &row{attack: a}
	watched, err := rig.Watch(v.Pid())
	if err != nil {
		return nil, err
	}
	ours := ownCPU()
	attacking, over := context.WithCancel(ctx)
	defer over()
	opening, enough := context.WithCancel(attacking)
	defer enough()
	c := newCrowd(a, v.Addr)
	c.done.Go(func() {
		if a.play != nil && rig.Wait(opening, calm) == nil {
			c.open(opening, attacking)
		}
	})
	r.load, err = rig.Load{URL: "http://" + v.Addr + "/api/test", Rate: rate, For: span, Connections: connections}.Run(ctx, nil)
	enough()
	if err == nil {
		r.usage, err = watched()
		r.attackersCPU = ownCPU() - ours
	}
	if err == nil {
		if a.life == 0 { // it may stay, so it leaves
			over()
		}
		v.awaitCalm(ctx, r, c)
	}
	over()
	c.done.Wait()
	r.tally = c.snapshot()
	if ended, how := v.Ended(); ended && ctx.Err() == nil {
		r.crash = fmt.Sprintf("the proxy ended (%v): %s", how, v.Output())
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.crash = complaint(v.Stop())
	return r, ctx.Err()
}

func complaint(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A victim is a proxy under attack.
type victim struct{ *rig.Proxy }

// awaitCalm waits until the attackers are gone, or should be, and asks the proxy
// how it is.
func (v victim) awaitCalm(ctx context.Context, r *row, c *crowd) {
	t := c.snapshot()
	since := t.last
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
	if err := ask(ctx, "http://"+v.Addr+"/api/test"); err != nil {
		r.canary = err.Error()
	}
}

// ask asks once, on a connection of its own.
func ask(ctx context.Context, url string) error {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", resp.Status)
	}
	return nil
}
