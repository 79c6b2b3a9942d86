package protect

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"weir/bench/lab/rig"
	"weir/internal/test/freeport"
	"weir/loadgen/record"
)

// ahead is the time between the start of the load generators and the first request, in which they
// open their connections: 12,000 in the scenario steady.
const ahead = 2 * time.Second

// A stage holds the programs of one run, and what the load generators say about themselves.
type stage struct {
	rig.Lab
	s     *Scenario
	side  Protection
	tools string   // folder of the built programs
	env   []string // of our proxies

	redis   *rig.Redis
	own     *target // nil for the target program
	process *rig.Process
	target  string // its address
	fronts  []string

	validity record.Validity // the worst
	reasons  []string
	lag      float64 // p99 while connections were idle, in seconds
}

// play plays the scenario of a turn with one side, and returns its score and its stage.
func (l *lab) play(ctx context.Context, t turn, side Protection) (score Score, st *stage, err error) {
	st = &stage{s: t.s, side: side, tools: l.tools, env: side.env}
	err = st.Run(ctx, func() {
		st.setUp(t.round)
		start := time.Now().Add(ahead)
		var all []request
		drive := func() { all = st.drive(start, t.round) }
		if l.live {
			rig.While(time.Second, st.line(start, l.out), drive)
		} else {
			drive()
		}
		score = t.s.judge(all, rand.New(rand.NewPCG(uint64(t.round), 1)))
		score.Lag = st.lag
	})
	return score, st, err
}

func (st *stage) setUp(round int) {
	if s := st.s; s.Varied || s.SlowShare > 0 || s.Kinds[1] > 0 || s.Dips.Every > 0 || s.Keys > 0 || s.Retries > 0 {
		stop := make(chan struct{})
		st.Cleanup(func() { close(stop) }) // after the proxies have ended
		st.own = newTarget(st.s, uint64(round), stop)
		st.target = st.Serve(st.own)
	} else {
		st.target = rig.Must(freeport.Addr())
		st.startTarget()
	}
	if st.s.Redis && st.side.env != nil {
		st.redis = st.Redis()
		st.env = append(slices.Clone(st.env), "RATE_LIMIT_ALGORITHM=token", "RATE_LIMIT_FILL_RATE=10000",
			"RATE_LIMIT_CAPACITY=10000", "REDIS_HOST="+st.redis.Addr)
	}
	if st.side.advisor {
		_, _, follow := st.Advisor(capacityKnown, limitRate, 50*time.Millisecond)
		st.env = slices.Concat(st.env, follow, []string{"ADAPTIVE_UPDATE_INTERVAL=5s"})
	}
	for range st.s.Proxies {
		st.fronts = append(st.fronts, st.front())
	}
}

// startTarget starts the target program, or restarts it after it was killed.
func (st *stage) startTarget() {
	st.process = st.StartAt("target", st.target, fmt.Sprintf("TARGET_WORKERS=%d", st.s.Workers),
		"TARGET_DELAY="+st.s.Phases[0].Delay.String(), "TARGET_DELAY_DIST=exponential",
		fmt.Sprintf("TARGET_QUEUE=%d", st.s.Queue))
	st.Cleanup(st.process.Kill) // what waits in its queue is not awaited
}

// connections is the number of connections of all clients, which are opened before the first
// request is due. Otherwise requests would wait for a connection in the generator. Few requests go
// to a slow route, so they need fewer: with as many again, the proxies would refuse some, and
// the load would start late.
const connections, slowConnections = 6000, 200

// drive sends the load, plays the trouble meanwhile, and returns the requests.
func (st *stage) drive(start time.Time, round int) (all []request) {
	if st.own != nil {
		st.own.start.Store(&start)
	}
	if st.s.Retries > 0 {
		return st.retrying(start, round)
	}
	path := "/api/test"
	if st.s.Keys > 0 {
		path += keyQuery
	}
	var loads []rig.Load
	add := func(addr, path string, share float64, connections int) {
		loads = append(loads, rig.Load{URL: "http://" + addr + path, Steps: st.s.steps(share), Arrivals: "poisson",
			StartAt: start, Seed: int64(1000*round + len(loads)), Outcomes: true, Connections: connections})
	}
	for _, addr := range st.fronts {
		add(addr, path, 1/float64(st.s.Proxies), connections/st.s.Proxies)
	}
	if st.s.SlowShare > 0 {
		add(st.fronts[0], slowPath, st.s.SlowShare, slowConnections)
	}
	for i, l := range st.During(func() { st.trouble(start) }, loads...) {
		late := l.StartedAt.Sub(start)
		if late > step {
			st.validity, st.reasons = record.Invalid,
				append(st.reasons, fmt.Sprintf("the load started %v late, the trouble did not", late))
		}
		for _, o := range l.Outcomes {
			all = append(all, request{rig.Outcome{Due: o.Due + late, Done: o.Done + late, Status: o.Status}, i >= st.s.Proxies})
		}
		if uint64(len(l.Outcomes)) != l.Due {
			rig.Check(fmt.Errorf("%d requests were due, but there are %d outcomes", l.Due, len(l.Outcomes)))
		}
		st.validity, st.reasons, st.lag = record.Worse(st.validity, l.Verdict), append(st.reasons, l.Reasons...),
			max(st.lag, l.PacerLag.P99)
	}
	return all
}

func (st *stage) trouble(start time.Time) {
	at := start
	for i, p := range st.s.Phases {
		st.Wait(at)
		if i > 0 {
			st.change(st.s.Phases[i-1], p)
		}
		if p.Bad && st.redis != nil {
			st.Wait(at.Add(min(redisGone, p.For)))
			st.redis.Kill()
		}
		at = at.Add(p.For)
	}
}

// change changes the target program to that of phase p. Our own target knows the phases.
func (st *stage) change(before, p Phase) {
	switch {
	case before.Delay == p.Delay || st.own != nil:
	case p.Delay == 0:
		st.process.Kill()
	case before.Delay == 0:
		st.startTarget()
	default:
		rig.Must(rig.Post(st.Ctx, "http://"+st.target+"/model", fmt.Sprintf(`{"delay":%g}`, p.Delay.Seconds())))
	}
}
