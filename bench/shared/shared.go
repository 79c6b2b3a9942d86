// Package shared plays what happens when Redis dies: two proxies share one
// limit, Redis is killed and started again under load, and every second is
// written down.
package shared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"weir/bench/rig"
)

const (
	limit   = 1000 // per second, for both proxies together
	rate    = 1500 // per second, for each proxy
	proxies = 2
	// late is when in a second the counters are read: a fixed window has let
	// through all it will by then.
	late = 850 * time.Millisecond
)

// A script says when Redis goes and comes, in seconds.
type script struct{ total, kill, restart int }

// Demo plays a short version.
func Demo(ctx context.Context, out io.Writer) error { return play(ctx, out, script{20, 7, 13}) }

// Run plays a minute.
func Run(ctx context.Context, out io.Writer) error { return play(ctx, out, script{60, 20, 40}) }

// A stage is the programs of the experiment.
type stage struct {
	redis   *rig.Redis
	target  *rig.Process
	proxies [proxies]*rig.Process

	targetAddr string
	proxyAddrs [proxies]string
}

func (st *stage) stop() (err error) {
	for _, p := range append(st.proxies[:], st.target) {
		if p != nil {
			err = errors.Join(err, p.Stop())
		}
	}
	if st.redis != nil {
		st.redis.End()
	}
	return err
}

func newStage(ctx context.Context) (*stage, error) {
	st := new(stage)
	var err error
	if st.redis, err = rig.StartRedis(ctx); err != nil {
		return st, err
	}
	if st.target, st.targetAddr, err = rig.StartTargetAt(ctx, nil); err != nil {
		return st, err
	}
	for i := range st.proxies {
		st.proxies[i], st.proxyAddrs[i], err = rig.StartProxy(ctx, []string{"TARGET_URL=http://" + st.targetAddr, "REDIS_HOST=" + st.redis.Addr,
			fmt.Sprintf("RATE_LIMIT_LIMIT=%d", limit), "GATE=off", "EVENT_LOOPS=1"})
		if err != nil {
			return st, err
		}
	}
	return st, nil
}

func play(ctx context.Context, out io.Writer, s script) (err error) {
	fmt.Fprintf(out, "Two proxies share a limit of %d/s in one Redis, GATE=off; each is offered %d/s for %d s. Redis is killed after %d s and starts again, empty, after %d s.\n\n",
		limit, rate, s.total, s.kill, s.restart)
	st, err := newStage(ctx)
	defer func() { err = errors.Join(err, st.stop()) }()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loads := make(chan loaded, proxies)
	for _, addr := range st.proxyAddrs {
		go func() {
			l, err := rig.Load{URL: "http://" + addr + "/api/test", Rate: rate, For: time.Duration(s.total) * time.Second}.Run(ctx, func(string) {})
			loads <- loaded{l, err}
		}()
	}
	seconds, err := st.watch(ctx, out, s)
	if err != nil {
		return err
	}
	var all []*rig.Loaded
	for range proxies {
		l := <-loads
		if l.err != nil {
			return l.err
		}
		all = append(all, l.Loaded)
	}
	return judge(out, seconds, all)
}

type loaded struct {
	*rig.Loaded
	err error
}

// A second is what was counted in one second of the clock.
type second struct {
	at                time.Time // its end
	admitted, refused uint64
	modes             string
	note              string // what happened to Redis in it
	state             state
}

// A state is how Redis was in a second.
type state uint8

const (
	starting state = iota // the load begins
	up                    // all of it
	down                  // all of it
	changing              // it went or came, or came less than a second ago
)

// watch lives through the script, a row for each second.
func (st *stage) watch(ctx context.Context, out io.Writer, s script) ([]second, error) {
	fmt.Fprintln(out, "| second | Redis | admitted | refused | modes | |\n| --- | --- | --- | --- | --- | --- |")
	begin := time.Now().Truncate(time.Second).Add(late)
	var before counters
	var seconds []second
	for n := 1; n < s.total; n++ {
		if err := sleepUntil(ctx, begin.Add(time.Duration(n)*time.Second)); err != nil {
			return nil, err
		}
		now, err := st.count(ctx)
		if err != nil {
			return nil, err
		}
		sec := second{at: now.at, admitted: now.served - before.served, refused: now.rejected - before.rejected, modes: now.modes, state: stateAt(n, s)}
		before = now
		// Windows end with the second: what happens to Redis happens between
		// the reading and the next window.
		switch n {
		case s.kill:
			st.redis.Kill()
			sec.note = "then Redis is killed"
		case s.restart:
			if err := st.redis.Restart(ctx); err != nil {
				return nil, err
			}
			sec.note = "then Redis starts again"
		}
		seconds = append(seconds, sec)
		fmt.Fprintf(out, "| %d | %s | %d | %d | %s | %s |\n", n, sec.state, sec.admitted, sec.refused, sec.modes, sec.note)
	}
	return seconds, nil
}

// stateAt is how Redis was in second n.
func stateAt(n int, s script) state {
	switch {
	case n <= 2:
		return starting
	case n == s.kill+1 || n == s.restart+1 || n == s.restart+2:
		return changing
	case n > s.kill && n <= s.restart:
		return down
	}
	return up
}

// String is the state in the table.
func (s state) String() string { return [...]string{"up (load begins)", "up", "down", "changing"}[s] }

// counters are the programs' own, at one moment.
type counters struct {
	at               time.Time
	served, rejected uint64
	modes            string
}

func (st *stage) count(ctx context.Context) (c counters, err error) {
	c.at = time.Now()
	if c.served, err = rig.Served(ctx, st.targetAddr); err != nil {
		return c, err
	}
	var modes []string
	for _, addr := range st.proxyAddrs {
		samples, err := rig.Scrape(ctx, addr)
		if err != nil {
			return c, err
		}
		c.rejected += uint64(samples.Sum("ratelimiter_requests_total", `decision="rejected"`))
		for _, m := range []string{"normal", "failopen", "local", "closed"} {
			if samples.Sum("ratelimiter_mode", `type="`+m+`"`) == 1 {
				modes = append(modes, m)
			}
		}
	}
	c.modes = strings.Join(modes, ", ")
	return c, nil
}

func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
