package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"weir/bench/lab/rig"
)

// adviceStep is the interval at which the proxy asks the advisor, before compression.
const adviceStep = 30 * time.Second

// A stage holds the programs of a case.
type stage struct {
	*rig.Lab
	*rig.Rig
	advisor *rig.Process // nil for none
}

func (st *stage) play(c Case, compress float64) *Run {
	s := find(c.Scenario)
	st.setUp(c, s, compress)
	run := &Run{Case: c, Compress: compress}
	ctx := st.Ctx // During replaces it
	read := appendReading(ctx, nil, st.Rig)
	began := time.Now()
	rig.While(sampleStep, func() { read = appendReading(ctx, read, st.Rig) }, func() {
		run.Load = st.During(func() {
			for _, t := range s.Events {
				st.Wait(began.Add(t.At))
				run.Events = append(run.Events, st.do(t.Name, began))
			}
		}, rig.Load{URL: st.URL(0), Steps: s.steps(compress), Progress: st.Lab})[0]
	})
	for i := range run.Events { // relative to the start of the load
		run.Events[i].At -= run.Load.StartedAt.Sub(began)
	}
	run.Samples = samples(read, run.Load.StartedAt, time.Duration(float64(s.Length())/s.scale(compress)))
	run.measure(s, run.Load.Within(patience))
	return run
}

func find(name string) *Scenario {
	for _, s := range Scenarios() {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

func (st *stage) setUp(c Case, s *Scenario, compress float64) {
	env := []string{"GATE=" + onOff(c.Gate), "RATE_LIMIT_ALGORITHM=" + c.Algorithm,
		fmt.Sprintf("RATE_LIMIT_LIMIT=%d", limit), "RATE_LIMIT_WINDOW=1",
		fmt.Sprintf("RATE_LIMIT_CAPACITY=%d", limit/5), fmt.Sprintf("RATE_LIMIT_FILL_RATE=%d", limit)}
	if c.Advisor {
		// It knows the target's capacity and a day of the scenario. Its clock is compressed even if
		// the scenario is not: in real time there would be one update in half a minute.
		p, addr, follow := st.Advisor(capacity, limit, slo)
		st.advisor = p
		rig.Section("send the past to the advisor", func() { sendPast(st.Ctx, addr, s, time.Now()) })
		env = slices.Concat(env, follow, []string{fmt.Sprintf("ADAPTIVE_UPDATE_INTERVAL=%v", adviceStep),
			fmt.Sprintf("ADAPTIVE_TIME_SCALE=%g", compress)})
	}
	kind := rig.MemoryStore
	if c.Store == "redis" {
		kind = rig.RedisStore
	}
	st.Rig = st.Lab.Rig(rig.Topology{Store: kind, Proxy: env,
		Target: []string{fmt.Sprintf("TARGET_WORKERS=%d", workers), "TARGET_DELAY=" + delay.String(),
			"TARGET_DELAY_DIST=exponential"}})
}

// past is the length of the history that the advisor receives, before compression.
const past = 26 * time.Hour

// sendPast sends the advisor snapshots of the past: the scenario, repeated, with the static
// limit.
func sendPast(ctx context.Context, addr string, s *Scenario, now time.Time) {
	for at := -past; at <= 0; at += adviceStep {
		rate := s.rateAt(at - adviceStep/2)
		admitted := math.Min(rate, limit)
		rig.Must(rig.Post(ctx, "http://"+addr+"/v1/limit-config", fmt.Sprintf(
			`{"timestamp":%q,"interval":%g,"observedRps":%g,"forwardedRps":%g,"rejectedRate":%g,"latencyP95":%g,"errors5xx":0,"algorithm":"fixed","limit":%d,"window":1,"instance":"past"}`,
			now.Add(at).UTC().Format(time.RFC3339Nano), adviceStep.Seconds(), rate, admitted, 1-admitted/rate, idleP95, limit)))
	}
}

// idleP95 is the p95 of exponential service times without queueing, in seconds.
var idleP95 = delay.Seconds() * math.Log(20)

// do plays a trouble and returns when it had happened; a restarted target has when it answers.
func (st *stage) do(what string, began time.Time) FaultEvent {
	model := func(d time.Duration) {
		rig.Must(rig.Post(st.Ctx, "http://"+st.TargetAddr+"/model", fmt.Sprintf(`{"delay":%g}`, d.Seconds())))
	}
	rig.Section(what, func() {
		switch {
		case what == slowTarget:
			model(2 * delay)
		case what == healTarget:
			model(delay)
		case what == killAdvisor && st.advisor != nil:
			st.advisor.Kill()
		case what == killTarget:
			st.Target.Kill()
		case what == restartTarget:
			st.StartTarget()
		case st.Store == nil: // the baseline has no store
		case what == killStore:
			st.Store.Kill()
		case what == restartStore:
			st.Store.Restart(st.Ctx)
		case what == freezeStore:
			rig.Check(st.Store.SignalAll(st.Ctx, syscall.SIGSTOP))
		case what == thawStore:
			rig.Check(st.Store.SignalAll(st.Ctx, syscall.SIGCONT))
		}
	})
	return FaultEvent{time.Since(began), what}
}

// installed returns an error about what a case needs and is not installed, or nil.
func installed(c Case) error {
	if c.Advisor {
		if _, err := rig.Binary("advisor"); err != nil {
			return err
		}
	}
	if c.Store == "redis" {
		return rig.RequireInstalled("redis-server")
	}
	return nil
}
