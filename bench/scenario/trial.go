package scenario

import (
	"context"
	"io"
	"strings"
	"time"

	"weir/bench/rig"
)

// A trial plays a constant load, possibly with troubles, and counts every second.
type trial struct {
	rig.Topology
	rate     int             // requests per second to each proxy
	seconds  int             // how long
	troubles []Trouble       // at whole seconds
	show     func(s *second) // is called after each second; may be nil
	progress io.Writer       // of the load; may be nil
}

// late is when in each second of the clock the counters are read: by then a fixed window has
// admitted everything that it will.
const late = 850 * time.Millisecond

// A second holds the counts between two readings.
type second struct {
	n                 int // the first is 1
	admitted, refused uint64
	modes             string // of the proxies
	trouble           string // played after it; empty for none
}

// An outcome is the outcome of a trial.
type outcome struct {
	loads    []*rig.Loaded // by proxy
	seconds  []second
	troubles []Trouble // at these times from the start of the load
}

func (t trial) run(ctx context.Context) (o *outcome, err error) {
	st := &stage{Lab: new(rig.Lab)}
	o = new(outcome)
	err = st.Run(ctx, func() {
		st.Rig = st.Lab.Rig(t.Topology)
		loads := make([]rig.Load, len(st.Proxies))
		for i := range loads {
			loads[i] = rig.Load{URL: st.URL(i), Rate: t.rate, For: time.Duration(t.seconds) * time.Second, Progress: t.progress}
		}
		began := time.Now()
		o.loads = st.During(func() { st.watch(&t, o, began) }, loads...)
		for i := range o.troubles {
			o.troubles[i].At -= o.loads[0].StartedAt.Sub(began)
		}
	})
	return o, err
}

// watch reads the counters once in each second of the clock and plays the troubles. Windows end
// with the second, so troubles happen between the reading and the next window.
func (st *stage) watch(t *trial, o *outcome, began time.Time) {
	first := began.Truncate(time.Second).Add(late)
	var before second
	for n := 1; n < t.seconds; n++ {
		st.Wait(first.Add(time.Duration(n) * time.Second))
		now := st.count()
		if now.admitted < before.admitted { // a restarted target counts from zero
			before.admitted = 0
		}
		s := second{n: n, admitted: now.admitted - before.admitted, refused: now.refused - before.refused, modes: now.modes}
		before = now
		for _, trouble := range t.troubles {
			if trouble.At == time.Duration(n)*time.Second {
				s.trouble = trouble.Name
				o.troubles = append(o.troubles, st.do(trouble.Name, began))
			}
		}
		o.seconds = append(o.seconds, s)
		if t.show != nil {
			t.show(&s)
		}
	}
}

// count returns the counts of the programs so far; that of a killed target is zero.
func (st *stage) count() (s second) {
	if ended, _ := st.Target.Ended(); !ended {
		s.admitted = rig.Must(rig.Served(st.Ctx, st.TargetAddr))
	}
	var modes []string
	for _, addr := range st.ProxyAddrs {
		samples := st.Scrape(addr)
		s.refused += uint64(samples.Sum("ratelimiter_requests_total", `decision="rejected"`))
		for _, m := range []string{"normal", "failopen", "local", "closed"} {
			if samples.Sum("ratelimiter_mode", `type="`+m+`"`) == 1 {
				modes = append(modes, m)
			}
		}
	}
	s.modes = strings.Join(modes, ", ")
	return s
}
