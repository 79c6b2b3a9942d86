package simredis

import (
	"fmt"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

var (
	logged    = limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 10, Window: 60})
	softened  = limittest.Soft(limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 60}, 0.5, 90)
	restsHeld = func(table *Table) (n int) {
		for i := range table.stripes {
			n += len(table.stripes[i].rests)
		}
		return n + len(table.overflow.rests)
	}
)

// What is kept beside the records comes with a log or a limit that was exceeded, and
// goes with them: when the key expires or is forgotten.
func TestRests(t *testing.T) {
	table := newTable(t, Config{Stripes: 2})
	expect := func(when string, want int) {
		t.Helper()
		if got := restsHeld(table); got != want {
			t.Errorf("%s: %d beside the records, want %d", when, got, want)
		}
	}
	for i := range 20 {
		take(table, epoch, "logged", fmt.Sprint(i), logged, 3)
		take(table, epoch, "soft", fmt.Sprint(i), softened, 10)
	}
	expect("with 20 logs, and 20 soft limits that are not exceeded", 20)
	for i := range 20 {
		if got := take(table, epoch, "soft", fmt.Sprint(i), softened, 9); got != 5 {
			t.Fatalf("%d of 9 beyond the limit, want 5", got)
		}
	}
	expect("exceeded", 40)
	for i := range 5 {
		take(table, epoch, "logged", fmt.Sprint(i), perHour, 1)
		take(table, epoch, "soft", fmt.Sprint(i), perHour, 1)
		table.Forget("logged", fmt.Append(nil, 5+i))
	}
	expect("5 forgotten and 10 counted under another window, too", 35)
	if got := take(table, epoch, "logged", "7", logged, 12); got != 10 {
		t.Errorf("a forgotten log was granted %d of 12, want 10", got)
	}
	table.Expire(epoch.Add(20*time.Minute), 1<<20)
	expect("expired", 0)
}

// The state of a removed key does not apply to the next key in its slot.
func TestRestsAreNotInherited(t *testing.T) {
	table := newTable(t, Config{Stripes: 1})
	take(table, epoch, "r", "stays", perHour, 1)
	take(table, epoch, "r", "a", softened, 15)
	table.Forget("r", []byte("a"))
	if got := take(table, epoch, "r", "b", softened, 20); got != 15 {
		t.Errorf("in the slot of a key that had exceeded its limit: %d of 20, want 15", got)
	}
	later := epoch.Add(10 * time.Minute)
	if got := take(table, later, "r", "b", logged, 20); got != 10 {
		t.Errorf("in the place of a key that has expired: %d of 20, want 10", got)
	}
}

// Keys that leave a rule's overflow bucket each have its log, and none another's.
func TestOverflowBucketOfLogs(t *testing.T) {
	table := newTable(t, Config{KeysMax: 2, Stripes: 1})
	take(table, epoch, "r", "first", perHour, 1)
	take(table, epoch, "r", "second", perHour, 1)
	if got := take(table, epoch, "r", "third", logged, 4); got != 4 {
		t.Fatalf("the overflow bucket granted %d of 4", got)
	}
	if got := take(table, epoch, "r", "fourth", logged, 4); got != 4 {
		t.Fatalf("the overflow bucket granted another key %d of 4", got)
	}
	table.Forget("r", []byte("first"))
	table.Forget("r", []byte("second"))
	for _, key := range []string{"third", "fourth"} {
		if got := take(table, epoch.Add(time.Second), "r", key, logged, 9); got != 2 {
			t.Errorf("out of the overflow bucket %s was granted %d, want the 2 that were left", key, got)
		}
	}
	table.Forget("r", []byte("third"))
	if got := take(table, epoch.Add(2*time.Second), "r", "fifth", logged, 9); got != 2 {
		t.Errorf("then another was granted %d, want 2", got)
	}
}

func TestReleaseWithoutAKey(t *testing.T) {
	table := newTable(t, Config{})
	queue := store.Counter{Rule: "r", Key: []byte("k"),
		Limit: limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 3, FillRate: 1}), Cost: 1}
	if table.Refund(epoch, &queue, limittest.Epoch) {
		t.Error("a key that was never seen gave a place back")
	}
	ask, ans := store.Ask{N: 2, Counters: []store.Counter{queue}}, store.Answer{}
	table.Take(epoch, &ask, &ans)
	if slot := ans.Decision().Slot; table.Refund(epoch.Add(time.Hour), &queue, slot) ||
		!table.Refund(epoch, &queue, slot) {
		t.Error("a place is given back while the key is there")
	}
}

// What is off takes nothing.
func TestOffTakesNoPlace(t *testing.T) {
	table := newTable(t, Config{})
	none := limittest.Must(limit.Config{Algorithm: limit.Off})
	if got := take(table, epoch, "r", "k", none, 1000); got != 1000 || table.Keys() != 0 || table.Overflowed() != 0 {
		t.Errorf("%d of 1000, %d keys, %d overflowed", got, table.Keys(), table.Overflowed())
	}
}
