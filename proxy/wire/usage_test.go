package wire

import (
	"net/http"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
	"weir/proxy/wire/report"
)

// What is in flight and what the gates let in is added up over time, whatever happens
// within a turn of the loop and when the clock is set back.
func TestUsage(t *testing.T) {
	f := crowd()
	f.loops = f.loops[:1]
	var at *target
	for at = range f.loops.of(f.Targets.All()[0]) {
		break
	}
	at.server.counts = report.NewLoop()
	now := time.Unix(1_000_000, 0)
	f.began = now
	at.spend(now)
	for _, step := range []struct {
		after                time.Duration
		busy, streams        int
		limit                int
		taken, places, bound uint64 // in milliseconds, in all
	}{
		{0, 1, 0, 4, 0, 0, 0},
		{100 * time.Millisecond, 4, 0, 4, 100, 400, 0},
		{0, 5, 0, 4, 100, 400, 0},
		{0, 5, 1, 4, 100, 400, 0},
		{50 * time.Millisecond, 9, 1, 16, 300, 600, 200},
		{-time.Hour, 9, 1, 16, 300, 600, 200},
		{10 * time.Millisecond, 0, 0, 16, 380, 760, 200},
		{time.Second, 0, 0, 16, 380, 16_760, 200},
	} {
		now = now.Add(step.after)
		at.spend(now)
		has := gate.Use{Short: step.busy - step.streams, Streams: step.streams}
		at.gate.Change(at.reported, has)
		at.reported = has
		at.Busy.Store(int64(step.busy))
		at.Streams.Store(int64(has.Streams))
		at.gate.SetLimit(step.limit)
		var sum report.Sum
		sum.Add(&at.server.counts.Traffic)
		if taken, places, bound := sum.Taken/1000, sum.Places/1000, sum.Bound/1000; taken != step.taken ||
			places != step.places || bound != step.bound {
			t.Errorf("at %v: %d taken of %d, %d bound; want %+v", now.Unix(), taken, places, bound, step)
		}
	}
	equal(t, "allocations", testing.AllocsPerRun(1000, func() { now = now.Add(time.Millisecond); at.spend(now) }), 0)
}

// A running proxy adds up also while nothing changes.
func TestUsageOfARunningProxy(t *testing.T) {
	for mode, binds := range map[gate.Mode]bool{gate.On: true, gate.Shadow: false, gate.Off: false} {
		r := holding(t, gatedFor(mode, time.Minute))
		before := r.Traffic()
		var d report.Sum
		for deadline := time.Now().Add(testkit.Patience); d.Taken < 20_000; time.Sleep(time.Millisecond) {
			if d = r.Traffic().Since(before); time.Now().After(deadline) {
				t.Fatal("nothing is added up")
			}
		}
		if (d.Bound > 0) != binds || (d.Places > 0) != (mode != gate.Off) || d.Targets != 1 {
			t.Errorf("%v: %d taken of %d, %d bound, %d targets", mode, d.Taken, d.Places, d.Bound, d.Targets)
		}
		r.play(`target answers; held -> 200`)
	}
}

// A running proxy counts all of it.
func TestTraffic(t *testing.T) {
	r := start(t, newService(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/bad" {
			w.WriteHeader(503)
		}
	}), "RATE_LIMIT_LIMIT", "4")
	r.play(`
		2 x GET /a -> 200; GET /bad -> 503
		2 x GET /a -> 429
		GET /metrics -> 200`)
	got := r.Traffic()
	if got.Admitted != 4 || got.Denied != 2 || got.Ended != 4 || got.Failed != 2 || got.Times.Quantile(1) <= 0 {
		t.Errorf("counted %+v", got)
	}
}

// A target that answers before it has the whole request has taken no time that could
// be measured.
func TestTrafficOfUploads(t *testing.T) {
	r := start(t, newService(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	r.play(`POST /u Content-Length=10000000 part*300000 -> 503`)
	if got := r.Traffic(); got.Admitted != 1 || got.Ended != 1 || got.Failed != 1 || got.Times != (report.Times{}) {
		t.Errorf("counted %+v", got)
	}
}
