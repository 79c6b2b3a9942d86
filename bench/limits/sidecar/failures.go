package sidecar

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/test/relay"
	"weir/loadgen/record"
)

// A failure is a way in which a master fails and recovers.
type failure struct {
	name       string
	empty      bool // the master's counters are in its memory and are lost
	fail, heal func(at *scene)
}

// slow is longer than the longest timeout.
const slow = 2500 * time.Millisecond

var failures = []failure{
	{name: "killed", fail: kill, heal: restart},
	{name: "restarted with an empty store", empty: true, fail: kill, heal: restart},
	{name: "frozen", fail: signal(syscall.SIGSTOP), heal: signal(syscall.SIGCONT)},
	{name: "slow by 2.5 s", fail: func(at *scene) { at.relay.Delay(slow) }, heal: func(at *scene) { at.relay.Delay(0) }},
	{name: "half-open", fail: func(at *scene) { at.relay.Drop(true) }, heal: func(at *scene) { at.relay.Drop(false) }},
	{name: "garbage", fail: divert(http.StatusOK, "<html>"), heal: back},
	{name: "wrong token", fail: func(at *scene) {
		at.master.Kill()
		at.master.Env = append(at.master.Env, "DECISION_TOKEN=another")
		at.master.Restart()
	}, heal: func(at *scene) {
		at.master.Kill()
		at.master.Env = at.master.Env[:len(at.master.Env)-1]
		at.master.Restart()
	}},
	{name: "newer version", fail: divert(http.StatusConflict,
		`{"error":"the message has version 1, and this program speaks version 2"}`), heal: back},
}

func kill(at *scene) { at.master.Kill() }

func restart(at *scene) { at.master.Restart() }

func signal(s syscall.Signal) func(*scene) {
	return func(at *scene) { rig.Check(at.master.SignalAll(at.Ctx, s)) }
}

// divert redirects the sidecar to a server with a fixed answer.
func divert(status int, body string) func(*scene) {
	return func(at *scene) {
		addr := at.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		at.relay.Redirect(func() string { return addr })
		at.relay.Cut()
	}
}

// back directs new connections to the master; existing ones stay.
func back(at *scene) { at.relay.Redirect(func() string { return at.master.Addr }) }

// The times of a failure, from the start of the load. A failure lasts longer than any timeout.
const (
	failAfter = 2 * time.Second
	healAfter = 6 * time.Second
	failTime  = 9 * time.Second
)

const (
	newRate     = 100 // per second, each with a key of its own
	limitedRate = 50  // per second, with one key, whose limit is used up
	backMax     = time.Second
	waitOver    = 5 * time.Millisecond // allowed beyond the timeout
	waitPart    = .999                 // quantile of the waits that is judged
	controlNap  = 3 * time.Millisecond
)

const failureRules = `rules:
- {id: new, match: {path: /api/test}, key: ["query:n"], limit: {algorithm: fixed, limit: 10, window: 3153600000}}
`

// A scene is a sidecar and its master.
//
// Owned by one goroutine.
type scene struct {
	*lab
	master  *rig.DecisionServer
	relay   *relay.Relay // between them
	sidecar string
}

// failures has the master of a sidecar fail in each way, with the shortest and the longest
// useful timeout.
func (l *lab) failures() {
	l.Heading("A master that fails")
	l.Note("It fails after %v and works again after %v. The load is %d/s with a new key each, about which the master "+
		"must be asked, and %d/s with one key whose limit is used up. The control is a goroutine that only sleeps until "+
		"times %v apart.", failAfter, healAfter, newRate, limitedRate, controlNap)
	t := result.NewTable("failure | REMOTE_TIMEOUT | answers | 5xx or none | wait p50 ms | p99.9 ms | longest ms | " +
		"control late p99.9 ms | admitted by the failure mode | limiting again after ms | generator")
	for _, timeout := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
		for i := range failures {
			f := &failures[i]
			var o *outcome
			rig.Section(f.name, func() { o = l.scene(f, timeout).under(f) })
			l.End()
			o.add(t, f, timeout)
			o.expect(&l.Expectations, fmt.Sprintf("%s, %v", f.name, timeout), timeout)
		}
	}
	l.Table(t)
}

func (l *lab) scene(f *failure, timeout time.Duration) *scene {
	at := &scene{lab: l}
	var env []string
	if !f.empty {
		env = append(env, "REDIS_HOST="+l.Redis().Addr)
	}
	at.master = l.master(env...)
	at.relay = rig.Must(relay.New(func() string { return at.master.Addr }))
	l.Cleanup(at.relay.Close)
	_, at.sidecar = l.Start("proxy", append(l.settings(l.target(), at.relay.Addr()),
		l.Rules(failureRules), "RATE_LIMIT_ALGORITHM=off", "REMOTE_TIMEOUT="+timeout.String())...)
	return at
}

func (at *scene) under(f *failure) *outcome {
	o := new(outcome)
	loads := [...]rig.Load{{URL: "http://" + at.sidecar + "/api/test?n={{counter}}", Rate: newRate},
		{URL: "http://" + at.sidecar + "/api/test?n=one", Rate: limitedRate}}
	start := time.Now().Add(500 * time.Millisecond)
	for i := range loads {
		loads[i].For, loads[i].StartAt, loads[i].Outcomes = failTime, start, true
	}
	var healed time.Duration
	o.loads = at.During(func() {
		rig.Parallel(2, func(i int) {
			if i == 0 {
				o.late = naps(at.Ctx, start.Add(failTime))
				return
			}
			at.Wait(start.Add(failAfter))
			f.fail(at)
			at.Wait(start.Add(healAfter))
			f.heal(at)
			healed = time.Since(start)
		})
	}, loads[:]...)
	at.Loads = append(at.Loads, o.loads...)
	o.measure(healed)
	return o
}

// naps sleeps until times that are evenly spaced, like requests, until over. It returns, sorted,
// how late it was each time: at least that much this machine adds to every wait. A pause of the
// machine delays all times that are due in it.
func naps(ctx context.Context, over time.Time) (late result.Latencies) {
	for due := time.Now().Add(controlNap); ctx.Err() == nil && due.Before(over); due = due.Add(controlNap) {
		time.Sleep(time.Until(due))
		late = append(late, time.Since(due))
	}
	slices.Sort(late)
	return late
}

// An outcome is the outcome of a failure.
type outcome struct {
	loads    []*rig.LoadResult // with new keys, and with the limited one
	answers  int
	bad      int              // 5xx, or no answer
	waits    result.Latencies // of all requests
	late     result.Latencies // of the control
	admitted int              // requests of the limited key above its limit
	back     time.Duration    // from the recovery of the master to the last of these
}

// permits is the limit of a key.
const permits = 10

func (o *outcome) measure(healed time.Duration) {
	for _, l := range o.loads {
		for _, one := range l.Outcomes {
			o.answers++
			if one.Status == 0 || one.Status >= 500 {
				o.bad++
			}
		}
	}
	o.waits = rig.Latencies(o.loads...)
	passed := 0
	for _, one := range o.loads[1].Outcomes {
		if one.Status != http.StatusOK {
			continue
		}
		if passed++; passed > permits {
			o.admitted++
			o.back = max(o.back, one.Due-healed)
		}
	}
}

func (o *outcome) add(t *result.Table, f *failure, timeout time.Duration) {
	t.Add("%s | %v | %d | %d | %.2f | %.1f | %.1f | %.1f | %d | %.0f | %s", f.name, timeout, o.answers, o.bad,
		o.waits.Millis(.5), o.waits.Millis(waitPart), o.waits.Millis(1), o.late.Millis(waitPart), o.admitted,
		result.Millis(o.back),
		rig.CountValidities(o.loads, func(l *rig.LoadResult) record.Validity { return l.Verdict }))
}

func (o *outcome) expect(e *result.Expectations, name string, timeout time.Duration) {
	e.Never(o.bad > 0, "%s: %d requests were answered with 5xx or not at all", name, o.bad)
	e.AtMost(name+": p99.9 of the wait in ms, less the control's", o.waits.Millis(waitPart)-o.late.Millis(waitPart),
		result.Millis(timeout+waitOver))
	e.AtMost(name+": limiting again after ms", result.Millis(o.back), result.Millis(backMax))
	e.Never(o.admitted == 0, "%s: the failure mode admitted nothing, so nothing is proved", name)
}
