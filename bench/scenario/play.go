package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"weir/bench/rig"
)

// adviceStep is the interval at which the proxy asks the advisor, before compression.
const adviceStep = 30 * time.Second

// A stage holds the programs of a case.
type stage struct {
	*rig.Rig
	advisor *rig.Process
	dir     string // of the advisor
}

// play plays a case and computes its figures.
func play(ctx context.Context, c Case, compress float64, out io.Writer) (run *Run, err error) {
	s := find(c.Scenario)
	st, err := setUp(ctx, c, s, compress)
	defer func() { err = errors.Join(err, st.end()) }()
	if err != nil {
		return nil, err
	}
	run = &Run{Case: c, Compress: compress}
	length := time.Duration(float64(s.Length()) / s.scale(compress))
	watched, stop := context.WithCancel(ctx)
	watch := sampler{proxyAddr: st.ProxyAddrs[0], targetAddr: st.TargetAddr}
	var wg sync.WaitGroup
	wg.Go(func() { watch.run(watched) })
	began := time.Now()
	loaded, err := rig.During(ctx, rig.Echo(out), func(ctx context.Context) (err error) {
		run.Troubles, err = st.trouble(ctx, s, began)
		return err
	}, rig.Load{URL: st.URL(0), For: length, Profile: s.profile(compress)})
	stop()
	wg.Wait()
	if err != nil {
		return nil, err
	}
	run.Load = loaded[0]
	for i := range run.Troubles { // relative to the start of the load
		run.Troubles[i].At -= run.Load.StartedAt.Sub(began)
	}
	run.Samples = samples(watch.readings, run.Load.StartedAt, length)
	run.measure(s, run.Load.Within(patience))
	return run, nil
}

func find(name string) *Scenario {
	for _, s := range Scenarios() {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// setUp starts the programs of a case. If it fails, the stage holds those that were started.
func setUp(ctx context.Context, c Case, s *Scenario, compress float64) (st *stage, err error) {
	st = new(stage)
	if st.dir, err = os.MkdirTemp("", "weir-scenario-"); err != nil {
		return st, err
	}
	env := []string{"GATE=off", "RATE_LIMIT_ALGORITHM=" + c.Algorithm, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", limit), "RATE_LIMIT_WINDOW=1",
		fmt.Sprintf("RATE_LIMIT_CAPACITY=%d", limit/5), fmt.Sprintf("RATE_LIMIT_FILL_RATE=%d", limit)}
	if c.Advisor {
		addr, err := st.startAdvisor(ctx, s)
		if err != nil {
			return st, err
		}
		// The advisor's clock is compressed even if the scenario is not: in real time there
		// would be one update in half a minute.
		env = append(env, "ADAPTIVE_MODE=true", "ADVISOR_URL=http://"+addr, fmt.Sprintf("ADAPTIVE_UPDATE_INTERVAL=%v", adviceStep),
			fmt.Sprintf("ADAPTIVE_TIME_SCALE=%g", compress), fmt.Sprintf("LIMIT_MIN_RPS=%d", limit/10), fmt.Sprintf("LIMIT_MAX_RPS=%d", 5*limit))
	}
	kind := rig.OwnStore
	if c.Store == "redis" {
		kind = rig.RedisStore
	}
	st.Rig, err = rig.Topology{Store: kind, Proxy: env,
		Target: []string{fmt.Sprintf("TARGET_WORKERS=%d", workers), "TARGET_DELAY=" + delay.String(), "TARGET_DELAY_DIST=exponential"}}.Start(ctx)
	return st, err
}

// startAdvisor starts an advisor that knows the target's capacity and a day of the scenario.
func (st *stage) startAdvisor(ctx context.Context, s *Scenario) (addr string, err error) {
	st.advisor, addr, err = rig.StartFree(ctx, "advisor", []string{fmt.Sprintf("CAPACITY_RPS=%d", capacity), "SLO_P95=" + slo.String(),
		fmt.Sprintf("LIMIT_MIN_RPS=%d", limit/10), fmt.Sprintf("LIMIT_MAX_RPS=%d", 5*limit), "STATE_FILE=" + filepath.Join(st.dir, "state")})
	if err != nil {
		return "", err
	}
	return addr, sendPast(ctx, addr, s, time.Now())
}

// past is the length of the history that the advisor receives, before compression.
const past = 26 * time.Hour

// sendPast sends the advisor snapshots of the past: the scenario, repeated, with the static
// limit.
func sendPast(ctx context.Context, addr string, s *Scenario, now time.Time) error {
	for at := -past; at <= 0; at += adviceStep {
		rate := s.rateAt(at - adviceStep/2)
		admitted := math.Min(rate, limit)
		body := fmt.Sprintf(`{"timestamp":%q,"interval":%g,"observedRps":%g,"forwardedRps":%g,"rejectedRate":%g,"latencyP95":%g,"errors5xx":0,"algorithm":"fixed","limit":%d,"window":1,"instance":"past"}`,
			now.Add(at).UTC().Format(time.RFC3339Nano), adviceStep.Seconds(), rate, admitted, 1-admitted/rate, idleP95, limit)
		if _, err := rig.Post(ctx, "http://"+addr+"/v1/limit-config", body); err != nil {
			return fmt.Errorf("send the past to the advisor: %w", err)
		}
	}
	return nil
}

// idleP95 is the p95 of exponential service times without queueing, in seconds.
var idleP95 = delay.Seconds() * math.Log(20)

// trouble plays the troubles of the scenario and returns when they happened.
func (st *stage) trouble(ctx context.Context, s *Scenario, began time.Time) (done []Trouble, err error) {
	for _, t := range s.Troubles {
		if rig.Wait(ctx, time.Until(began.Add(t.At))) != nil {
			return done, nil
		}
		if err := st.do(ctx, t.Name); err != nil {
			return done, fmt.Errorf("%s: %w", t.Name, err)
		}
		done = append(done, Trouble{time.Since(began), t.Name})
	}
	return done, nil
}

func (st *stage) do(ctx context.Context, what string) error {
	model := func(d time.Duration) error {
		_, err := rig.Post(ctx, "http://"+st.TargetAddr+"/model", fmt.Sprintf(`{"delay":%g}`, d.Seconds()))
		return err
	}
	switch {
	case what == slowTarget:
		return model(2 * delay)
	case what == healTarget:
		return model(delay)
	case what == killAdvisor && st.advisor != nil:
		st.advisor.Kill()
		st.advisor = nil
	case what == killTarget:
		st.Target.Kill()
	case what == restartTarget:
		return st.StartTarget(ctx)
	case st.Store == nil: // the baseline has no store
	case what == killStore:
		st.Store.Kill()
	case what == restartStore:
		return st.Store.Restart(ctx)
	case what == freezeStore:
		return syscall.Kill(st.Store.Pid(), syscall.SIGSTOP)
	case what == thawStore:
		return syscall.Kill(st.Store.Pid(), syscall.SIGCONT)
	}
	return nil
}

// end stops the programs.
func (st *stage) end() (err error) {
	if st.Rig != nil {
		err = st.Rig.Stop()
	}
	if st.advisor != nil {
		err = errors.Join(err, st.advisor.Stop())
	}
	return errors.Join(err, os.RemoveAll(st.dir))
}

// installed returns an error about what a case needs and is not installed, or nil.
func installed(c Case) error {
	if c.Advisor {
		if _, err := rig.Binary("advisor"); err != nil {
			return err
		}
	}
	if c.Store == "redis" {
		return rig.Installed("redis-server")
	}
	return nil
}
