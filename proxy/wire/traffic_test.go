package wire

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/session"
)

// A quantile is the exact one but for a sixteenth, whatever the times.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var times Times
		var exact []time.Duration
		scale := math.Exp(4 * rng.NormFloat64())
		for range 1 + rng.IntN(2000) {
			d := time.Duration(float64(time.Millisecond) * scale * math.Exp(rng.NormFloat64()))
			d = min(d, 2*time.Minute)
			times[timesSlot(d)]++
			exact = append(exact, d)
		}
		slices.Sort(exact)
		for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
			at := q * float64(len(exact))
			least := exact[max(0, int(math.Ceil(at))-1)]
			most := exact[min(len(exact)-1, int(at))]
			got := times.Quantile(q)
			if low, high := least*15/16-2*time.Microsecond, most*17/16+2*time.Microsecond; got < low || got > high {
				t.Errorf("round %d: the quantile %v of %d times is %v, want %v … %v", round, q, len(exact), got, least, most)
			}
		}
	}
	if got := new(Times).Quantile(0.95); got != 0 {
		t.Errorf("of nothing it is %v", got)
	}
}

// Every time has its bucket, and buckets border on each other.
func TestTimesSlots(t *testing.T) {
	for us := int64(0); us < 1<<28; us = us*33/32 + 1 {
		d := time.Duration(us) * time.Microsecond
		slot := timesSlot(d)
		if slot < 0 || slot >= timesLen || slot < timesLen-1 && (timesFrom(slot) > float64(us) || timesFrom(slot+1) <= float64(us)) {
			t.Errorf("%v is in bucket %d, from %v to %v µs", d, slot, timesFrom(slot), timesFrom(slot+1))
		}
	}
	if timesSlot(-time.Second) != 0 || timesSlot(math.MaxInt64) != timesLen-1 {
		t.Error("what is beyond the buckets is not in the nearest")
	}
}

func TestTrafficSince(t *testing.T) {
	before := Traffic{Admitted: 1, Denied: 2, Ended: 3, Failed: 4}
	before.Times[7] = 5
	now := Traffic{Admitted: 11, Denied: 22, Ended: 33, Failed: 44}
	now.Times[7], now.Times[8] = 55, 66
	want := Traffic{Admitted: 10, Denied: 20, Ended: 30, Failed: 40}
	want.Times[7], want.Times[8] = 50, 66
	if got := now.Since(&before); got != want {
		t.Errorf("%+v", got)
	}
}

// What of an admitted request counts.
func TestTrafficOver(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, test := range []struct {
		name string
		o    session.Outcome
		want string // ended failed timed
	}{
		{"answered", session.Outcome{Status: 200, Relayed: true, Sent: ago(time.Millisecond)}, "1 0 1"},
		{"not found", session.Outcome{Status: 404, Relayed: true, Sent: ago(time.Millisecond)}, "1 0 1"},
		{"a fault of the target", session.Outcome{Status: 500, Relayed: true, Sent: ago(time.Millisecond)}, "1 1 1"},
		{"nobody there", session.Outcome{Status: 502, Fault: session.FaultRefused}, "1 1 0"},
		{"broken off", session.Outcome{Status: 502, Fault: session.FaultClosed, Sent: ago(time.Millisecond)}, "1 1 0"},
		{"too late", session.Outcome{Status: 504, Fault: session.FaultTimeout, Sent: ago(10 * time.Second)}, "1 1 1"},
		{"too large", session.Outcome{Status: 413, Sent: ago(time.Millisecond)}, "1 0 0"},
		{"left at once", session.Outcome{Sent: ago(waitedLong - 1)}, "0 0 0"},
		{"left after a while", session.Outcome{Sent: ago(waitedLong)}, "1 1 1"},
		{"left in the middle of an answer", session.Outcome{Relayed: true, Sent: ago(time.Minute)}, "0 0 0"},
		{"left before it was sent", session.Outcome{}, "0 0 0"},
	} {
		var tr traffic
		tr.over(now, &test.o)
		timed := uint64(0)
		for i := range tr.times {
			timed += tr.times[i].Load()
		}
		if got := fmt.Sprint(tr.ended.Load(), tr.failed.Load(), timed); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// A running proxy counts all of it.
func TestTraffic(t *testing.T) {
	r := start(t, newService(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/bad" {
			w.WriteHeader(503)
		}
	}), "RATE_LIMIT_LIMIT", "4")
	conn := r.dial()
	for i, path := range []string{"/a", "/bad", "/a", "/bad", "/a", "/a", "/metrics"} {
		conn.ask("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n", []int{200, 503, 200, 503, 429, 429, 200}[i])
	}
	got := r.Traffic()
	if got.Admitted != 4 || got.Denied != 2 || got.Ended != 4 || got.Failed != 2 || got.Times.Quantile(1) <= 0 {
		t.Errorf("counted %d admitted, %d denied, %d ended, %d failed, the longest %v", got.Admitted, got.Denied, got.Ended, got.Failed, got.Times.Quantile(1))
	}
}

// The candidate is asked about every request, and refuses none.
func TestCandidate(t *testing.T) {
	r := start(t, newTarget(t, echoes).url(), "RATE_LIMIT_LIMIT", "5")
	trial := func(permits int64) {
		t.Helper()
		l, err := limit.New(limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: century.Seconds()})
		if err != nil {
			t.Fatal(err)
		}
		r.SetCandidate(&l)
	}
	conn := r.dial()
	conn.ask(get, 200)
	if _, there := r.samples()[ruleMetric("candidate", "forwarded")]; there {
		t.Error("a candidate is counted that nobody has set")
	}
	trial(2)
	for i := range 6 {
		conn.ask(get, []int{200, 200, 200, 200, 429, 429}[i])
	}
	trial(3) // takes over what was consumed
	conn.ask(get, 429)
	conn.ask(get, 429)
	r.SetCandidate(nil)
	conn.ask(get, 429)
	if admitted, refused := r.Candidate(); admitted != 3 || refused != 5 {
		t.Errorf("the candidates admitted %d and refused %d", admitted, refused)
	}
	r.samplesAre(ruleMetric("candidate", "shadow_forwarded"), 3, ruleMetric("candidate", "shadow_rejected"), 5, ruleMetric("candidate", "rejected"), 0,
		ruleMetric("global", "forwarded"), 5, ruleMetric("global", "rejected"), 5)
}

// Counting costs no memory.
func TestTrafficAllocates(t *testing.T) {
	var tr traffic
	o := session.Outcome{Status: 200, Relayed: true, Sent: time.Unix(1000, 0)}
	if n := testing.AllocsPerRun(100, func() { tr.decided(true); tr.over(time.Unix(1001, 0), &o) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
