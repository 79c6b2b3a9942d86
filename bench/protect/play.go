package protect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weir/bench/rig"
	"weir/internal/freeport"
	"weir/loadgen/record"
)

// ahead is the time between the start of the load generators and the first request.
const ahead = 700 * time.Millisecond

// A stage holds the programs of one run.
type stage struct {
	s     *Situation
	side  Side
	tools string   // folder of the built programs
	dir   string   // of the run
	env   []string // of our proxies

	running []*rig.Process
	redis   *rig.Redis
	own     *target // nil for the target program
	process *rig.Process
	target  string // its address
	fronts  []string
	stop    func() // ends the own target
}

// keep registers p to be stopped at the end.
func (st *stage) keep(p *rig.Process, err error) error {
	if err == nil {
		st.running = append(st.running, p)
	}
	return err
}

// A verdict is the load generator's verdict on its own run.
type verdict struct {
	word    record.Verdict
	reasons []string
	lag     float64 // p99 of its lag while connections were idle, in seconds
}

// play runs the situation of a turn with a side.
func play(ctx context.Context, t turn, side Side, tools string) (score Score, v verdict, err error) {
	s, round := t.s, t.round
	st := &stage{s: s, side: side, tools: tools, env: side.env, stop: func() {}}
	defer func() { err = errors.Join(err, st.end()) }()
	if err := st.setUp(ctx, round); err != nil {
		return score, v, err
	}
	start := time.Now().Add(ahead)
	all, v, err := st.drive(ctx, start, round)
	if err != nil {
		return score, v, err
	}
	score = s.judge(all, rand.New(rand.NewPCG(uint64(round), 1)))
	score.Lag = v.lag
	return score, v, nil
}

// setUp starts the programs. If it fails, the stage holds those that were started.
func (st *stage) setUp(ctx context.Context, round int) (err error) {
	if st.dir, err = os.MkdirTemp("", "weir-protect-"); err != nil {
		return err
	}
	if st.target, err = freeport.Addr(); err != nil {
		return err
	}
	if st.s.Varied || st.s.SlowShare > 0 {
		st.serve(round)
	} else if err := st.startTarget(ctx); err != nil {
		return err
	}
	if st.s.Redis && st.side.env != nil {
		if st.redis, err = rig.StartRedis(ctx); err != nil {
			return err
		}
		st.env = append(slices.Clone(st.env), "RATE_LIMIT_ALGORITHM=token", "RATE_LIMIT_FILL_RATE=10000", "RATE_LIMIT_CAPACITY=10000", "REDIS_HOST="+st.redis.Addr)
	}
	if st.side.advisor {
		if err := st.startAdvisor(ctx); err != nil {
			return err
		}
	}
	for range st.s.Proxies {
		addr, err := st.front(ctx)
		if err != nil {
			return err
		}
		st.fronts = append(st.fronts, addr)
	}
	return nil
}

// startTarget starts the target program, or restarts it after it was killed.
func (st *stage) startTarget(ctx context.Context) (err error) {
	st.process, err = rig.StartProgram(ctx, "target", st.target, []string{fmt.Sprintf("TARGET_WORKERS=%d", st.s.Workers),
		"TARGET_DELAY=" + st.s.Phases[0].Delay.String(), "TARGET_DELAY_DIST=exponential", fmt.Sprintf("TARGET_QUEUE=%d", st.s.Queue)})
	return err
}

// serve starts a target in this process.
func (st *stage) serve(round int) {
	ctx, cancel := context.WithCancel(context.Background())
	st.own = newTarget(st.s, uint64(round), ctx.Done())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = rig.Serve(ctx, st.target, st.own)
	}()
	st.stop = func() {
		cancel()
		<-over
	}
}

// startAdvisor starts an advisor and adds its address to the proxies' settings.
func (st *stage) startAdvisor(ctx context.Context) error {
	bounds := []string{fmt.Sprintf("LIMIT_MIN_RPS=%d", limitRate/10), fmt.Sprintf("LIMIT_MAX_RPS=%d", 5*limitRate)}
	p, addr, err := rig.StartFree(ctx, "advisor", append([]string{fmt.Sprintf("CAPACITY_RPS=%d", capacityKnown), "SLO_P95=50ms", "STATE_FILE=" + filepath.Join(st.dir, "state")}, bounds...))
	if err := st.keep(p, err); err != nil {
		return err
	}
	st.env = slices.Concat(st.env, bounds, []string{"ADAPTIVE_MODE=true", "ADVISOR_URL=http://" + addr, "ADAPTIVE_UPDATE_INTERVAL=5s"})
	return nil
}

// connections is the number of connections of all clients, which are opened before the first
// request is due. Otherwise requests would wait for a connection in the generator.
const connections = 6000

// drive sends the load, plays the trouble meanwhile, and returns the requests and the worst verdict of the generators.
func (st *stage) drive(ctx context.Context, start time.Time, round int) (all []request, v verdict, err error) {
	var loads []rig.Load
	add := func(addr, path string, share float64) {
		loads = append(loads, rig.Load{URL: "http://" + addr + path, For: st.s.Length(), Profile: st.s.profile(share),
			StartAt: start, Seed: int64(1000*round + len(loads)), Outcomes: true, Connections: connections / st.s.Proxies})
	}
	for _, addr := range st.fronts {
		add(addr, "/api/test", 1/float64(st.s.Proxies))
	}
	if st.s.SlowShare > 0 {
		add(st.fronts[0], slowPath, st.s.SlowShare)
	}
	loaded, err := rig.During(ctx, nil, func(ctx context.Context) error { return st.trouble(ctx, start) }, loads...)
	if err != nil {
		return nil, v, err
	}
	for i, l := range loaded {
		late := l.StartedAt.Sub(start)
		if late > step {
			v.word, v.reasons = "INVALID", append(v.reasons, fmt.Sprintf("the load started %v late, the trouble did not", late))
		}
		for _, o := range l.Outcomes {
			all = append(all, request{rig.Outcome{Due: o.Due + late, Done: o.Done + late, Status: o.Status}, i >= st.s.Proxies})
		}
		if uint64(len(l.Outcomes)) != l.Due {
			return nil, v, fmt.Errorf("%d requests were due, but there are %d outcomes", l.Due, len(l.Outcomes))
		}
		v.word, v.reasons, v.lag = record.Worse(v.word, l.Verdict), append(v.reasons, l.Reasons...), max(v.lag, l.PacerLag.P99)
	}
	return all, v, nil
}

// trouble changes the target at the start of each phase, until ctx ends.
func (st *stage) trouble(ctx context.Context, start time.Time) error {
	at := start
	for i, p := range st.s.Phases {
		if rig.Wait(ctx, time.Until(at)) != nil {
			return nil
		}
		if i > 0 {
			if err := st.change(ctx, st.s.Phases[i-1], p); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if p.Bad && st.redis != nil {
			if rig.Wait(ctx, time.Until(at.Add(min(redisGone, p.For)))) != nil {
				return nil
			}
			st.redis.Kill()
		}
		at = at.Add(p.For)
	}
	return nil
}

// change changes the target to that of phase p.
func (st *stage) change(ctx context.Context, before, p Phase) error {
	switch {
	case before.Delay == p.Delay:
		return nil
	case p.Delay == 0:
		st.process.Kill()
		return nil
	case before.Delay == 0:
		return st.startTarget(ctx)
	case st.own != nil:
		st.own.delay.Store(int64(p.Delay))
		return nil
	}
	_, err := rig.Post(ctx, "http://"+st.target+"/model", fmt.Sprintf(`{"delay":%g}`, p.Delay.Seconds()))
	return err
}

// end stops the programs, the proxies first.
func (st *stage) end() (err error) {
	for _, p := range slices.Backward(st.running) {
		err = errors.Join(err, p.Stop())
	}
	if st.process != nil {
		st.process.Kill()
	}
	st.stop()
	if st.redis != nil {
		st.redis.End()
	}
	return errors.Join(err, os.RemoveAll(st.dir))
}
