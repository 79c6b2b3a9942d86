package storetest

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

const (
	us  = time.Microsecond
	sec = time.Second
)

// A record is an ask about the counters in group, each written as rule, key and cost, and with debt
// if a ! follows. want has the expected decisions in the same order.
type record struct {
	at       time.Duration
	group    []string
	n        int
	granted  int
	want     []limit.Decision
	tightest int
}

// recorded replays histories whose answers were computed by hand.
func recorded(t *testing.T, open Open) {
	limits := map[string]*limit.Limit{
		"global": limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: 10}),
		"client": limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 2, FillRate: 0.5}),
		"path":   limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 4, Window: 4}),
		"log":    limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 3, Window: 10}),
		"pace":   limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 3}),
		"queue":  limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 2, FillRate: 2}),
		"soft":   limittest.Soft(limit.Config{Algorithm: limit.Fixed, Limit: 4, Window: 10}, 0.5, 15),
		"none":   limittest.Must(limit.Config{Algorithm: limit.Off}),
	}
	for name, records := range histories() {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			for i, r := range records {
				s.at(limittest.Epoch + r.at.Microseconds())
				var counters []store.Counter
				for _, text := range r.group {
					counters = append(counters, counterOf(text, limits))
				}
				for k := range r.want {
					if d := &r.want[k]; d.Delay > 0 {
						d.Slot = limittest.Epoch + (r.at + d.Delay).Microseconds()
					}
				}
				want := store.Answer{Granted: r.granted, Decisions: r.want, Tightest: r.tightest,
					At: limittest.Epoch + r.at.Microseconds()}
				if got := s.ask(r.n, counters...); !reflect.DeepEqual(got, want) {
					t.Errorf("step %d at %v:\n got %+v\nwant %+v", i, r.at, got, want)
				}
			}
		})
	}
}

func counterOf(text string, limits map[string]*limit.Limit) (c store.Counter) {
	var key string
	if _, err := fmt.Sscanf(text, "%s %s %d", &c.Rule, &key, &c.Cost); err != nil {
		panic(fmt.Sprintf("bug: storetest: counter %q: %v", text, err))
	}
	c.Key, c.Limit = []byte(key), limits[c.Rule]
	if strings.HasSuffix(text, "!") {
		c.Debt = c.Limit.Debt(2)
	}
	return c
}

// clipped returns d of an ask that was not charged in full.
func clipped(d limit.Decision) limit.Decision {
	d.Clipped = true
	return d
}

// late returns the decision of an admitted request that waits for its slot.
func late(left, of int64, delay, reset time.Duration) limit.Decision {
	d := yes(left, of, reset)
	d.Delay = delay
	return d
}

// yes and no return decisions that admit and refuse.
func yes(left, of int64, reset time.Duration) limit.Decision {
	return limit.Decision{Allowed: true, Remaining: left, Limit: of, ResetAfter: reset}
}

func no(left, of int64, retry, reset time.Duration) limit.Decision {
	return limit.Decision{Remaining: left, Limit: of, RetryAfter: retry, ResetAfter: reset}
}

func histories() map[string][]record {
	both := []string{"global - 1", "client ann 1"}
	all := map[string][]record{
		"nothing is charged when one of two refuses": {
			{at: 1 * sec, group: both, n: 1, granted: 1, want: []limit.Decision{yes(4, 5, 9*sec), yes(1, 2, 2*sec)},
				tightest: 1},
			{at: 1 * sec, group: both, n: 4, granted: 1, want: []limit.Decision{yes(3, 5, 9*sec), no(0, 2, 2*sec, 4*sec)},
				tightest: 1},
			{at: 2 * sec, group: both, n: 1, want: []limit.Decision{yes(3, 5, 8*sec), no(0, 2, 1*sec, 3*sec)}, tightest: 1},
			{at: 2 * sec, group: []string{"global - 3"}, n: 1, granted: 1, want: []limit.Decision{yes(0, 5, 8*sec)}},
			{at: 2 * sec, group: both, n: 1, want: []limit.Decision{no(0, 5, 8*sec, 8*sec), no(0, 2, 1*sec, 3*sec)}},
			{at: 9 * sec, group: both, n: 1, want: []limit.Decision{no(0, 5, 1*sec, 1*sec), yes(2, 2, 0)}},
			{at: 10 * sec, group: both, n: 1, granted: 1, want: []limit.Decision{yes(4, 5, 10*sec), yes(1, 2, 2*sec)},
				tightest: 1},
		},
		"keys of one rule do not meet": {
			{group: []string{"client ann 2"}, n: 1, granted: 1, want: []limit.Decision{yes(0, 2, 4*sec)}},
			{group: []string{"client bob 1"}, n: 3, granted: 2, want: []limit.Decision{no(0, 2, 2*sec, 4*sec)}},
			{at: 4 * sec, group: []string{"client ann 0"}, n: 1, granted: 1, want: []limit.Decision{yes(2, 2, 0)}},
		},
		"a cost that can never be held": {
			{group: []string{"global - 1", "client ann 3"}, n: 2,
				want: []limit.Decision{yes(5, 5, 0), no(2, 2, limit.Never, 0)}, tightest: 1},
		},
		"three algorithms together": {
			{at: 3 * sec, group: []string{"path / 2", "global - 1", "client ann 1"}, n: 3, granted: 2,
				want: []limit.Decision{no(0, 4, 2*sec+us, 4*sec+us), yes(3, 5, 7*sec), no(0, 2, 2*sec, 4*sec)}},
		},
		"a log lets each one go a window after it": {
			{at: 1 * sec, group: []string{"log - 1"}, n: 1, granted: 1, want: []limit.Decision{yes(2, 3, 10*sec)}},
			{at: 4 * sec, group: []string{"log - 1"}, n: 3, granted: 2, want: []limit.Decision{no(0, 3, 7*sec, 10*sec)}},
			{at: 4 * sec, group: []string{"log - 2"}, n: 1, want: []limit.Decision{no(0, 3, 10*sec, 10*sec)}},
			{at: 11*sec - us, group: []string{"log - 1"}, n: 1, want: []limit.Decision{no(0, 3, us, 3*sec+us)}},
			{at: 11 * sec, group: []string{"log - 1"}, n: 2, granted: 1, want: []limit.Decision{no(0, 3, 3*sec, 10*sec)}},
			{at: 14 * sec, group: []string{"log - 1", "client ann 3"}, n: 1,
				want: []limit.Decision{yes(2, 3, 7*sec), no(2, 2, limit.Never, 0)}, tightest: 1},
		},
	}
	maps.Copy(all, pacedHistories())
	maps.Copy(all, lateHistories())
	return all
}

// pacedHistories are those of limits that space requests, or change with their use.
func pacedHistories() map[string][]record {
	return map[string][]record{
		"one request in 3 seconds": {
			{at: 0, group: []string{"pace - 1"}, n: 2, granted: 1, want: []limit.Decision{no(0, 1, 3*sec, 3*sec)}},
			{at: 3*sec - us, group: []string{"pace - 1"}, n: 1, want: []limit.Decision{no(0, 1, us, us)}},
			{at: 7 * sec, group: []string{"pace - 1"}, n: 1, granted: 1, want: []limit.Decision{yes(0, 1, 3*sec)}},
			{at: 9 * sec, group: []string{"pace - 1"}, n: 1, want: []limit.Decision{no(0, 1, 1*sec, 1*sec)}},
		},
		"a queue of two": {
			{at: 0, group: []string{"queue - 1"}, n: 1, granted: 1, want: []limit.Decision{yes(2, 2, sec/2)}},
			{at: 0, group: []string{"queue - 1"}, n: 1, granted: 1, want: []limit.Decision{late(1, 2, sec/2, sec)}},
			{at: 0, group: []string{"queue - 1"}, n: 1, granted: 1, want: []limit.Decision{late(0, 2, sec, 3*sec/2)}},
			{at: 0, group: []string{"queue - 1"}, n: 1, want: []limit.Decision{no(0, 2, sec/2, 3*sec/2)}},
			{at: sec / 4, group: []string{"queue - 1", "none - 1"}, n: 1,
				want: []limit.Decision{no(0, 2, sec/4, 5*sec/4), yes(limit.Unlimited, limit.Unlimited, 0)}},
			{at: 1 * sec, group: []string{"queue - 1", "global - 6"}, n: 1,
				want: []limit.Decision{yes(2, 2, sec/2), no(5, 5, limit.Never, 0)}, tightest: 1},
			{at: 1 * sec, group: []string{"queue - 1"}, n: 1, granted: 1, want: []limit.Decision{late(1, 2, sec/2, sec)}},
		},
		"a soft limit turns hard and recovers": {
			{at: 5 * sec, group: []string{"soft - 1"}, n: 7, granted: 6, want: []limit.Decision{no(0, 4, 5*sec, 20*sec)}},
			// for the second time
			{at: 11 * sec, group: []string{"soft - 1"}, n: 7, granted: 6, want: []limit.Decision{no(0, 4, 9*sec, 24*sec)}},
			// hard
			{at: 20 * sec, group: []string{"soft - 1"}, n: 7, granted: 4, want: []limit.Decision{no(0, 4, 10*sec, 15*sec)}},
			// still
			{at: 34 * sec, group: []string{"soft - 1"}, n: 7, granted: 4, want: []limit.Decision{no(0, 4, 1*sec, 6*sec)}},
			// within the limit for 15 s
			{at: 35 * sec, group: []string{"soft - 1"}, n: 7, granted: 2, want: []limit.Decision{no(0, 4, 5*sec, 20*sec)}},
		},
	}
}

// lateHistories are those of costs that are known only after a request was served.
func lateHistories() map[string][]record {
	return map[string][]record{
		"a late charge counts in full": {
			{at: 1 * sec, group: []string{"global - 0!"}, n: 2, granted: 2, want: []limit.Decision{yes(5, 5, 0)}},
			{at: 1 * sec, group: []string{"global - 3!"}, n: 1, granted: 1, want: []limit.Decision{yes(2, 5, 9*sec)}},
			{at: 1 * sec, group: []string{"global - 8!"}, n: 1, want: []limit.Decision{no(0, 5, 9*sec, 9*sec)}},
			{at: 1 * sec, group: []string{"global - 0!"}, n: 2, want: []limit.Decision{no(0, 5, 9*sec, 9*sec)}},
			{at: 1 * sec, group: []string{"global - 0"}, n: 1, granted: 1, want: []limit.Decision{yes(0, 5, 9*sec)}},
			{at: 10 * sec, group: []string{"global - 0!"}, n: 1, granted: 1, want: []limit.Decision{yes(5, 5, 0)}},
		},
		"what is charged late is charged even if another refuses": {
			{at: 1 * sec, group: []string{"global - 5"}, n: 1, granted: 1, want: []limit.Decision{yes(0, 5, 9*sec)}},
			{at: 2 * sec, group: []string{"global - 1", "client ann 1!"}, n: 3, tightest: 0,
				want: []limit.Decision{no(0, 5, 8*sec, 8*sec), no(0, 2, 4*sec, 6*sec)}},
			{at: 2 * sec, group: []string{"path / 2", "client ann 0!"}, n: 1, tightest: 1,
				want: []limit.Decision{yes(4, 4, 0), no(0, 2, 4*sec, 6*sec)}},
			{at: 6 * sec, group: []string{"path / 2", "client ann 0!"}, n: 1, granted: 1,
				want: []limit.Decision{yes(2, 4, 4*sec+us), yes(1, 2, 2*sec)}},
		},
		"debt has an end": {
			{at: 0, group: []string{"client ann 5!"}, n: 1, want: []limit.Decision{no(0, 2, 8*sec, 10*sec)}},
			{at: 0, group: []string{"client ann 2!"}, n: 3, want: []limit.Decision{clipped(no(0, 2, 12*sec, 12*sec))}},
			{at: 10 * sec, group: []string{"client ann 1"}, n: 1, granted: 1, want: []limit.Decision{yes(0, 2, 4*sec)}},
			{at: 10 * sec, group: []string{"log - 4!"}, n: 1, want: []limit.Decision{no(0, 3, 10*sec, 10*sec)}},
			{at: 12 * sec, group: []string{"log - 1!"}, n: 9, want: []limit.Decision{clipped(no(0, 3, 10*sec, 10*sec))}},
			{at: 20 * sec, group: []string{"log - 1!"}, n: 1, want: []limit.Decision{no(0, 3, 2*sec, 10*sec)}},
		},
	}
}
