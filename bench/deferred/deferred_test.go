package deferred

import (
	"net/http"
	"testing"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
)

// judged checks what judge finds to be missed.
func judged(t *testing.T, name, want string, judge func(l *lab)) {
	t.Helper()
	l := &lab{Lab: &rig.Lab{Report: new(result.Report)}}
	judge(l)
	resulttest.RequireMissed(t, name, &l.Expectations, want)
}

const waiting = 100_000 // requests sent in acceptTime

// answers are those of a whole load, of which some take long or are refused.
func answers(slow, refused int) *rig.LoadResult {
	list := make([]rig.Outcome, waiting)
	for i := range list {
		list[i] = rig.Outcome{Done: time.Millisecond, Status: http.StatusAccepted}
		if i < slow {
			list[i].Done = 5 * time.Millisecond
		}
		if i >= len(list)-refused {
			list[i].Status = http.StatusTooManyRequests
		}
	}
	return &rig.LoadResult{Outcomes: list}
}

// arrivals returns the arrivals of a shop at a share of the limit.
func arrivals(share float64) []time.Time {
	at := make([]time.Time, backlog)
	for i := range at {
		at[i] = time.Unix(0, int64(float64(i)*1e9/rate/share))
	}
	return at
}

func TestJudge(t *testing.T) {
	accept := func(slow, refused int) func(l *lab) {
		return func(l *lab) { l.judgeAccept(answers(slow, refused), []time.Duration{time.Millisecond}) }
	}
	starts := func(late ...time.Duration) func(l *lab) { return func(l *lab) { l.judgeStarts(late) } }
	rates := func(share float64) func(l *lab) {
		return func(l *lab) { l.judgeBacklog([][]time.Time{arrivals(1), arrivals(share)}) }
	}
	for _, c := range []struct {
		name, want string
		judge      func(l *lab)
	}{
		{"stored in time", "", accept(waiting/100, 0)},
		{"stored late", "p99 of two fdatasyncs: 5, expected ≤ 4", accept(waiting/100+1, 0)},
		{"one is refused", "stored per second: 5000, expected ≥ 5000", accept(0, 1)},
		{"delivered in time", "", starts(startP50*time.Millisecond, startP99*time.Millisecond)},
		{"half of them late", "p50 in ms after the permitted instant: 11", starts(11*time.Millisecond, 12*time.Millisecond)},
		{"one in two very late", "p99 in ms after the permitted instant: 51", starts(0, 51*time.Millisecond)},
		{"too early", "arrived 1ms before its limit", starts(-time.Millisecond, 0)},
		{"at the limit", "", rates(1.004)},
		{"a shop too fast", "relative to the limit: 1.006, expected ≤ 1.005", rates(1.006)},
		{"a shop too slow", "relative to the limit: 0.994, expected ≥ 0.995", rates(.994)},
	} {
		judged(t, c.name, c.want, c.judge)
	}
}
