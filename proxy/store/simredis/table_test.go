package simredis

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

var (
	epoch     = time.UnixMicro(limittest.Epoch)
	perMinute = limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 60})
	perHour   = limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 3600})
)

func newTable(t testing.TB, cfg Config) *Table {
	t.Helper()
	return testkit.Must(New(cfg))(t)
}

// take asks n times for one permit of a key.
func take(table *Table, now time.Time, rule, key string, l *limit.Limit, n int) (granted int) {
	ask := store.Ask{N: n, Counters: []store.Counter{{Rule: rule, Key: []byte(key), Limit: l, Cost: 1}}}
	var ans store.Answer
	table.Take(now, &ask, &ans)
	return ans.Granted
}

func TestNewRefusesNonsense(t *testing.T) {
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{Config{KeysMax: -1}, "KeysMax must be at least 1, is -1"},
		{Config{Stripes: 3}, "Stripes must be a power of two up to 65536, is 3"},
		{Config{Stripes: -2}, "is -2"},
		{Config{Stripes: 1 << 17}, "is 131072"},
	} {
		if _, err := New(test.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.cfg, err, test.want)
		}
	}
}

// A flood of new keys neither grows the table beyond its bound nor gives anybody
// a full bucket: not the keys that are in it, and not those that come.
func TestFloodOfKeysRefillsNobody(t *testing.T) {
	const keysMax = 100
	table := newTable(t, Config{KeysMax: keysMax, Stripes: 4})
	if got := take(table, epoch, "r", "victim", perHour, 12); got != 10 {
		t.Fatalf("a new key was granted %d of 12, want 10", got)
	}
	for i := range keysMax - 1 {
		if got := take(table, epoch, "r", fmt.Sprint("key", i), perHour, 1); got != 1 {
			t.Fatalf("key %d of %d was refused", i+2, keysMax)
		}
	}
	if table.Keys() != keysMax || table.Overflowed() != 0 {
		t.Fatalf("at the bound: %d keys, %d overflowed", table.Keys(), table.Overflowed())
	}
	admitted := 0
	for i := range 1000 {
		admitted += take(table, epoch, "r", fmt.Sprint("flood", i), perHour, 1)
	}
	if admitted != 10 {
		t.Errorf("1000 keys beyond the bound were granted %d, want 10: what one bucket holds", admitted)
	}
	if table.Keys() != keysMax || table.Overflowed() != 1000 {
		t.Errorf("after the flood: %d keys, %d overflowed", table.Keys(), table.Overflowed())
	}
	if got := take(table, epoch, "r", "victim", perHour, 1); got != 0 {
		t.Errorf("after the flood the first key is granted %d, want 0", got)
	}
	if got := take(table, epoch, "other", "key", perHour, 12); got != 10 {
		t.Errorf("another rule's overflow bucket was granted %d of 12, want 10", got)
	}
	if got := take(table, epoch, "r", "key0", perHour, 12); got != 9 {
		t.Errorf("a key that is in the table was granted %d of 12, want 9", got)
	}
}

// Two keys of one ask that share an overflow bucket are both charged to it, or neither.
func TestKeysOfOneAskOverflow(t *testing.T) {
	table := newTable(t, Config{KeysMax: 1, Stripes: 1})
	take(table, epoch, "r", "first", perHour, 1)
	ask := store.Ask{N: 1, Counters: []store.Counter{
		{Rule: "r", Key: []byte("a"), Limit: perHour, Cost: 2}, {Rule: "r", Key: []byte("b"), Limit: perHour, Cost: 1}}}
	var ans store.Answer
	for range 3 {
		if table.Take(epoch, &ask, &ans); ans.Granted != 1 {
			t.Fatalf("refused with room for both: %+v", ans)
		}
	}
	if table.Take(epoch, &ask, &ans); ans.Granted != 0 || ans.Decisions[0].Allowed || ans.Decisions[1].Allowed {
		t.Errorf("granted more than the bucket has: %+v", ans)
	}
	if got := take(table, epoch, "r", "c", perHour, 2); got != 1 {
		t.Errorf("another key is granted %d of 2, want the 1 that is left", got)
	}
}

// A key that shared the overflow bucket and then gets a place of its own keeps
// what the bucket has consumed.
func TestLeavingTheOverflowBucketIsNoRefill(t *testing.T) {
	table := newTable(t, Config{KeysMax: 1, Stripes: 1})
	take(table, epoch, "r", "first", perMinute, 1)
	if got := take(table, epoch, "r", "second", perHour, 8); got != 8 {
		t.Fatalf("the overflow bucket granted %d of 8", got)
	}
	if !table.Forget("r", []byte("first")) {
		t.Fatal("the first key was not in the table")
	}
	if got := take(table, epoch, "r", "second", perHour, 8); got != 2 {
		t.Errorf("out of the overflow bucket, granted %d, want the 2 that were left", got)
	}
	if table.Keys() != 1 || table.Overflowed() != 1 {
		t.Errorf("the second key should have a place of its own: %d keys, %d overflowed", table.Keys(), table.Overflowed())
	}
	table.Forget("r", []byte("second"))
	if got := take(table, epoch.Add(time.Hour), "r", "third", perHour, 12); got != 10 {
		t.Errorf("with an overflow bucket that is as new, granted %d, want 10", got)
	}
}

// A refused ask takes no place in the table.
func TestRefusalTakesNoPlace(t *testing.T) {
	table := newTable(t, Config{KeysMax: 5})
	ask := store.Ask{N: 1, Counters: []store.Counter{
		{Rule: "a", Key: []byte("k"), Limit: perHour, Cost: 1},
		{Rule: "b", Key: []byte("k"), Limit: perHour, Cost: 11},
	}}
	var ans store.Answer
	table.Take(epoch, &ask, &ans)
	if ans.Granted != 0 || ans.Tightest != 1 || ans.Decision().RetryAfter != limit.Never {
		t.Errorf("a cost of 11 of 10: %+v", ans)
	}
	if table.Keys() != 0 {
		t.Errorf("%d keys, want none", table.Keys())
	}
}

// Each key expires, a second after it is as new, without being asked for; the
// memory is used again.
func TestEveryKeyExpires(t *testing.T) {
	const n = 1000
	table := newTable(t, Config{KeysMax: n, Stripes: 4})
	for round := range 3 {
		now := epoch.Add(time.Duration(round) * time.Hour)
		for i := range n {
			take(table, now, "r", fmt.Sprint("key", i), perMinute, 1)
		}
		take(table, now, "r", "one too many", perMinute, 1)
		if removed := table.Expire(now.Add(61*time.Second-time.Microsecond), 1<<20); removed != 0 {
			t.Errorf("round %d: %d keys expired too early", round, removed)
		}
		if removed := table.Expire(now.Add(61*time.Second), 1<<20); removed != n+1 {
			t.Errorf("round %d: %d keys expired, want %d and an overflow bucket", round, removed, n)
		}
		if table.Keys() != 0 || table.Overflowed() != uint64(round+1) {
			t.Errorf("round %d: %d keys, %d overflowed", round, table.Keys(), table.Overflowed())
		}
		if buckets := table.buckets.Load(); buckets != 0 {
			t.Errorf("round %d: %d overflow buckets left", round, buckets)
		}
	}
}

// Expire keeps to its budget and goes on where it stopped.
func TestExpireInSteps(t *testing.T) {
	table := newTable(t, Config{Stripes: 2})
	for i := range 500 {
		take(table, epoch, "r", fmt.Sprint("key", i), perMinute, 1)
	}
	later, removed, calls := epoch.Add(2*time.Minute), 0, 0
	for ; removed < 500 && calls < 1000; calls++ {
		step := table.Expire(later, 10)
		if step > 10 {
			t.Fatalf("with a budget of 10, %d removed", step)
		}
		removed += step
	}
	if removed != 500 || calls < 50 {
		t.Errorf("%d of 500 removed in %d calls", removed, calls)
	}
}

// An expired key that was not removed yet is as one never seen, in the same
// place.
func TestExpiredKeyIsAsNew(t *testing.T) {
	table := newTable(t, Config{})
	take(table, epoch, "r", "k", perMinute, 10)
	if got := take(table, epoch.Add(5*time.Minute), "r", "k", perMinute, 12); got != 10 {
		t.Errorf("granted %d of 12, want 10", got)
	}
	if table.Keys() != 1 {
		t.Errorf("%d keys, want 1", table.Keys())
	}
}

// The margin of the expiry covers a clock that steps back into the window.
func TestExpiryOutlastsASmallStepBack(t *testing.T) {
	table := newTable(t, Config{})
	take(table, epoch, "r", "k", perMinute, 10)
	table.Expire(epoch.Add(60*time.Second+500*time.Millisecond), 1<<20)
	if got := take(table, epoch.Add(60*time.Second-500*time.Millisecond), "r", "k", perMinute, 1); got != 0 {
		t.Errorf("granted %d in the same window, want 0", got)
	}
}

func TestForget(t *testing.T) {
	table := newTable(t, Config{})
	take(table, epoch, "r", "k", perHour, 10)
	take(table, epoch, "r", "other", perHour, 10)
	if !table.Forget("r", []byte("k")) || table.Forget("r", []byte("k")) || table.Forget("s", []byte("other")) {
		t.Error("Forget does not say what was there")
	}
	if got := take(table, epoch, "r", "k", perHour, 12); got != 10 {
		t.Errorf("a forgotten key was granted %d of 12, want 10", got)
	}
	if got := take(table, epoch, "r", "other", perHour, 1); got != 0 {
		t.Errorf("another key is granted %d, want 0: it is not forgotten", got)
	}
}

// Everything at once: floods of new keys in groups, expiry and forgetting. No
// more than the bound's keys and one bucket are granted, and all locks are free
// in the end.
func TestFloodUnderConcurrency(t *testing.T) {
	const keysMax = 50
	table := newTable(t, Config{KeysMax: keysMax, Stripes: 8})
	var granted atomic.Int64
	var wg sync.WaitGroup
	for asker := range 8 {
		wg.Go(func() {
			var ans store.Answer
			for i := range 200 {
				key := fmt.Append(nil, asker, i)
				table.Take(epoch, &store.Ask{N: 1, Counters: []store.Counter{
					{Rule: "a", Key: key, Limit: perHour, Cost: 1},
					{Rule: "b", Key: key[:1], Limit: perHour, Cost: 0},
				}}, &ans)
				granted.Add(int64(ans.Granted))
				table.Expire(epoch, 10)
				table.Forget("b", key)
			}
		})
	}
	wg.Wait()
	if got := granted.Load(); got < 10 || got > keysMax+10 {
		t.Errorf("granted %d, want at most %d", got, keysMax+10)
	}
	if table.Keys() > keysMax {
		t.Errorf("%d keys, more than %d", table.Keys(), keysMax)
	}
	if removed := table.Expire(epoch.Add(2*time.Hour), 1<<20); removed < 1 || table.Keys() != 0 {
		t.Errorf("after all have expired: %d removed, %d left", removed, table.Keys())
	}
}

// Keys and rules of any length are distinguished completely.
func TestLongKeys(t *testing.T) {
	table := newTable(t, Config{Stripes: 1})
	for length := range 600 {
		key := strings.Repeat("x", length)
		if got := take(table, epoch, "r", key, perHour, 12); got != 10 {
			t.Errorf("a key of %d bytes was granted %d of 12, want 10", length, got)
		}
		if got := take(table, epoch, key, "r", perHour, 12); got != 10 && length != 1 {
			t.Errorf("a rule of %d bytes was granted %d of 12, want 10", length, got)
		}
	}
}

func TestSameRuleTwiceIsAMistake(t *testing.T) {
	table := newTable(t, Config{})
	c := store.Counter{Rule: "r", Key: []byte("k"), Limit: perHour, Cost: 1}
	defer func() {
		if recover() == nil {
			t.Error("an ask that names a rule twice did not panic")
		}
	}()
	table.Take(epoch, &store.Ask{Counters: []store.Counter{c, c}, N: 1}, new(store.Answer))
}

// Once a log has grown to what its limit needs, deciding takes no memory, whatever
// the algorithm is.
func TestTakeDoesNotAllocate(t *testing.T) {
	table := newTable(t, Config{})
	for i, l := range append(limittest.Limits(), limittest.Must(limit.Config{Algorithm: limit.Off})) {
		ask, ans := askOf(fmt.Sprint("limit", i), []byte("k"), l), store.Answer{}
		now := epoch
		step := func() { now = now.Add(100 * time.Millisecond); table.Take(now, ask, &ans) }
		for range 200 {
			step()
		}
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("%v: %v allocations", l.Config(), n)
		}
	}
	ask := store.Ask{N: 1}
	var ans store.Answer
	now := epoch
	for counters := 1; counters <= store.CountersMax; counters++ {
		ask.Counters = append(ask.Counters, store.Counter{
			Rule: fmt.Sprint("rule", counters), Key: []byte("10.0.0.1"), Limit: perHour, Cost: 1,
		})
		table.Take(now, &ask, &ans)
		n := testing.AllocsPerRun(100, func() {
			now = now.Add(time.Millisecond)
			table.Take(now, &ask, &ans)
		})
		if n != 0 {
			t.Errorf("%d counters: %v allocations", counters, n)
		}
	}
}
