package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/proxy/http/exchange"
)

// A quantile is the exact one but for a sixteenth, whatever the times.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var times ResponseTimes
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
	if got := new(ResponseTimes).Quantile(0.95); got != 0 {
		t.Errorf("of nothing it is %v", got)
	}
}

// Every time has its bucket, and buckets border on each other.
func TestTimesSlots(t *testing.T) {
	for us := int64(0); us < 1<<28; us = us*33/32 + 1 {
		d := time.Duration(us) * time.Microsecond
		slot := timesSlot(d)
		if slot < 0 || slot >= timesLen || slot < timesLen-1 &&
			(timesFrom(slot) > float64(us) || timesFrom(slot+1) <= float64(us)) {
			t.Errorf("%v is in bucket %d, from %v to %v µs", d, slot, timesFrom(slot), timesFrom(slot+1))
		}
	}
	if timesSlot(-time.Second) != 0 || timesSlot(math.MaxInt64) != timesLen-1 {
		t.Error("what is beyond the buckets is not in the nearest")
	}
}

func TestTrafficSince(t *testing.T) {
	before := TrafficTotals{Admitted: 1, Denied: 2, Ended: 3, Failed: 4}
	before.Times[7] = 5
	now := TrafficTotals{Admitted: 11, Denied: 22, Ended: 33, Failed: 44}
	now.Times[7], now.Times[8] = 55, 66
	want := TrafficTotals{Admitted: 10, Denied: 20, Ended: 30, Failed: 40}
	want.Times[7], want.Times[8] = 50, 66
	if got := now.Since(&before); got != want {
		t.Errorf("%+v", got)
	}
}

// What of an admitted request counts, and with which time.
func TestTrafficOver(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(ms int) time.Time { return now.Add(-time.Duration(ms) * time.Millisecond) }
	for _, test := range []struct {
		name string
		o    exchange.Outcome
		want string // ended failed, milliseconds
	}{
		{"answered", exchange.Outcome{Status: 200, Relayed: true, Sent: ago(3), Complete: ago(3), Answered: ago(1)}, "1 0 2"},
		{"not found", exchange.Outcome{Status: 404, Relayed: true, Sent: ago(3), Complete: ago(3), Answered: ago(1)},
			"1 0 2"},
		{"a fault of the target", exchange.Outcome{Status: 500, Relayed: true, Sent: ago(3), Complete: ago(3),
			Answered: ago(1)}, "1 1 2"},
		{"sent slowly", exchange.Outcome{Status: 200, Relayed: true, Sent: ago(9000), Complete: ago(3), Answered: ago(1)},
			"1 0 2"},
		{"taken slowly", exchange.Outcome{Status: 200, Relayed: true, Sent: ago(9003), Complete: ago(9002),
			Answered: ago(9000)}, "1 0 2"},
		{"answered before it was complete", exchange.Outcome{Status: 503, Relayed: true, Sent: ago(9), Complete: ago(1),
			Answered: ago(3)}, "1 1 -"},
		{"answered and never complete", exchange.Outcome{Status: 400, Relayed: true, Sent: ago(9), Answered: ago(3)},
			"1 0 -"},
		{"nobody there", exchange.Outcome{Status: 502, Fault: exchange.FaultRefused}, "1 1 -"},
		{"broken off", exchange.Outcome{Status: 502, Fault: exchange.FaultClosed, Sent: ago(1), Complete: ago(1)}, "1 1 -"},
		{"too late", exchange.Outcome{Status: 504, Fault: exchange.FaultTimeout, Sent: ago(10), Complete: ago(10)}, "1 1 10"},
		{"too large", exchange.Outcome{Status: 413, Sent: ago(1)}, "1 0 -"},
		{"shed by the gate", exchange.Outcome{Status: 503, Fault: exchange.FaultShed}, "0 0 -"},
		{"left at once", exchange.Outcome{Sent: ago(999), Complete: ago(999)}, "0 0 -"},
		{"left after a while", exchange.Outcome{Sent: ago(1000), Complete: ago(1000)}, "1 1 1000"},
		{"left while it sent", exchange.Outcome{Sent: ago(60_000)}, "0 0 -"},
		{"left soon after it had sent", exchange.Outcome{Sent: ago(60_000), Complete: ago(999)}, "0 0 -"},
		{"left in the middle of an answer", exchange.Outcome{Relayed: true, Sent: ago(60_000), Complete: ago(60_000),
			Answered: ago(50_000)}, "0 0 -"},
		{"left before it was sent", exchange.Outcome{}, "0 0 -"},
	} {
		var c TrafficCounter
		c.Finished(now, &test.o)
		timed := "-"
		for _, ms := range []int{0, 1, 2, 3, 9, 10, 1000, 9000, 60_000} {
			if c.times[timesSlot(time.Duration(ms)*time.Millisecond)].Load() > 0 {
				timed = fmt.Sprint(ms)
			}
		}
		if got := fmt.Sprintf("%d %d %s", c.ended.Load(), c.failed.Load(), timed); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Counting costs no memory.
func TestTrafficAllocates(t *testing.T) {
	var c TrafficCounter
	o := exchange.Outcome{Status: 200, Relayed: true, Complete: time.Unix(1000, 0), Answered: time.Unix(1001, 0)}
	if n := testing.AllocsPerRun(1000, func() { c.Decided(true); c.Finished(time.Unix(1001, 0), &o) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
