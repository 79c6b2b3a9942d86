package decision

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

const (
	connections = 64
	spell       = 4 * time.Second // of wrk, each
	rounds      = 3
)

// script has wrk post requests about some users in turn.
const script = `wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local n = 0
request = function()
  n = n + 1
  return wrk.format(nil, nil, nil, string.format('` + body + `', "u" .. n %% %d))
end
`

// A contestant is asked as fast as it answers.
type contestant struct {
	name    string
	process *rig.Process
	url     string
	own     string     // where its store's commands are counted; empty: nowhere
	redis   *rig.Redis // nil: it has none
}

// A sample is one run.
type sample struct {
	perSecond, perCPU float64
	redis             float64 // processor time in µs per decision
	commands          float64 // of the store, per decision
}

// speed compares decisions by processor time, of all users alike and of many.
func (l *lab) speed(ctx context.Context) error {
	redis, err := l.Redis(ctx)
	if err != nil {
		return err
	}
	peer, peerURL, err := l.peer(ctx, redis.Addr)
	if err != nil {
		return err
	}
	weir, own, weirURL, err := l.weir(ctx, "REDIS_HOST="+redis.Addr)
	if err != nil {
		return err
	}
	alone, aloneOwn, aloneURL, err := l.weir(ctx)
	if err != nil {
		return err
	}
	all := []contestant{{"envoyproxy/ratelimit", peer, peerURL, "", redis}, {"Weir", weir, weirURL, own, redis}, {"Weir, simulated Redis", alone, aloneURL, aloneOwn, nil}}
	fmt.Fprintf(l.Out, "### Speed\n\nwrk posts to /json over %d connections, %d turns of %v; Weir has one event loop, envoyproxy/ratelimit all processors.\n\n", connections, rounds, spell)
	for _, users := range []int{1, 1000} {
		runs, err := l.run(ctx, all, users)
		if err != nil {
			return err
		}
		l.judge(all, runs, users)
	}
	return nil
}

// run drives contestants in turn.
func (l *lab) run(ctx context.Context, all []contestant, users int) ([][]sample, error) {
	file := filepath.Join(l.Dir, "post.lua")
	if err := os.WriteFile(file, fmt.Appendf(nil, script, "%s", users), 0o600); err != nil {
		return nil, err
	}
	runs := make([][]sample, len(all))
	for range rounds {
		for i := range all {
			s, err := all[i].sample(ctx, file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[i].name, err)
			}
			runs[i] = append(runs[i], s)
		}
	}
	return runs, nil
}

// sample is one run of a contestant.
func (c *contestant) sample(ctx context.Context, script string) (s sample, err error) {
	before, err := c.look(ctx)
	if err != nil {
		return s, err
	}
	r, used, err := rig.Wrk{URL: c.url, Connections: connections, For: spell, Script: script}.Against(ctx, c.process.Pid())
	if err != nil {
		return s, err
	}
	after, err := c.look(ctx)
	switch {
	case err != nil:
		return s, err
	case r.Failed > 0 || r.Requests == 0 || used == 0:
		return s, fmt.Errorf("%d of %.0f requests failed, which makes the comparison worthless", r.Failed, r.Requests)
	}
	return sample{r.PerSecond, r.Requests / used.Seconds(), 1e6 * (after.redis - before.redis).Seconds() / r.Requests, (after.commands - before.commands) / r.Requests}, nil
}

// A look is what was used so far.
type look struct {
	redis    time.Duration
	commands float64
}

func (c *contestant) look(ctx context.Context) (at look, err error) {
	if c.redis != nil {
		if at.redis, err = rig.CPU(c.redis.Pid()); err != nil {
			return at, err
		}
	}
	if c.own != "" {
		samples, err := rig.Scrape(ctx, c.own)
		if err != nil {
			return at, err
		}
		at.commands = samples.Sum("ratelimiter_store_commands_total")
	}
	return at, nil
}

func perSecond(s sample) float64 { return s.perSecond }
func perCPU(s sample) float64    { return s.perCPU }
func ofRedis(s sample) float64   { return s.redis }
func commands(s sample) float64  { return s.commands }

// judge prints the figures; the goals are about one key, which callers share.
func (l *lab) judge(all []contestant, runs [][]sample, users int) {
	t := report.NewTable(fmt.Sprintf("%d keys | decisions/s | per second of its processor time | Redis: µs of processor time a decision | commands a decision", users))
	for i, c := range all {
		asks := "2"
		if c.own != "" {
			asks = fmt.Sprintf("%.2f", report.MedianOf(runs[i], commands))
		}
		if c.redis == nil {
			asks = "–"
		}
		t.Add("%s | %.0f | %.0f | %.1f | %s", c.name, report.MedianOf(runs[i], perSecond), report.MedianOf(runs[i], perCPU), report.MedianOf(runs[i], ofRedis), asks)
	}
	fmt.Fprintf(l.Out, "%s\nWeir's decisions per processor time, of the peer's: %s; Redis' processor time, of that for the peer: %s\n\n",
		t, report.RatioOf(runs[1], runs[0], perCPU).Ratio(1), report.RatioOf(runs[1], runs[0], ofRedis).Ratio(2))
	if users > 1 {
		return
	}
	l.AtLeast("decisions per processor time, of the peer's", report.MedianOf(runs[1], perCPU)/report.MedianOf(runs[0], perCPU), 5)
	l.AtMost("store commands per decision", report.MedianOf(runs[1], commands), .2)
	l.AtMost("Redis' processor time, of that for the peer", report.MedianOf(runs[1], ofRedis)/report.MedianOf(runs[0], ofRedis), .3)
	l.AtLeast("simulated Redis, one loop: decisions per second", report.MedianOf(runs[2], perSecond), 80_000)
}
