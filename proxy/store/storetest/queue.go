package storetest

import (
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// off asks about a limited counter between counters without a limit.
func off(t *testing.T, s Store) {
	none := limittest.Must(limit.Config{Algorithm: limit.Off})
	first := store.Counter{Rule: "a", Key: []byte("key"), Limit: none, Cost: 1 << 60}
	two := store.Counter{Rule: "b", Key: []byte("key"),
		Limit: limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 2, Window: 10}), Cost: 1}
	last := store.Counter{Rule: "c", Limit: none, Cost: 1, Reserve: 5}
	unlimited := limit.Decision{Allowed: true, Remaining: limit.Unlimited, Limit: limit.Unlimited}
	for i, test := range []struct {
		counters []store.Counter
		granted  int
		tightest int
	}{
		{[]store.Counter{first}, 3, 0},
		{[]store.Counter{first, last}, 3, 0},
		{[]store.Counter{first, two, last}, 2, 1},
		{[]store.Counter{two, last}, 0, 0},
		{[]store.Counter{last}, 3, 0},
	} {
		ans := s.ask(3, test.counters...)
		if ans.Granted != test.granted || ans.Tightest != test.tightest || ans.Mode != store.Exact ||
			len(ans.Decisions) != len(test.counters) {
			t.Errorf("ask %d: %+v, want %d granted, %d tightest", i, ans, test.granted, test.tightest)
			continue
		}
		for k, d := range ans.Decisions {
			if test.counters[k].Limit == none && d != unlimited {
				t.Errorf("ask %d, counter %d: %+v, want no limit", i, k, d)
			}
		}
	}
}

// release books places in a queue that one request leaves per second, and gives some back.
func release(t *testing.T, open Open) {
	queue := store.Counter{Rule: "queue", Key: []byte("key"),
		Limit: limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 3, FillRate: 1}), Cost: 1}
	book := func(s Store) (slot int64) {
		ans := s.ask(1, queue)
		if ans.Granted != 1 {
			t.Fatalf("a place was refused: %+v", ans)
		}
		return s.Now().Add(ans.Delay()).UnixMicro()
	}
	start := func() (s Store, slots [4]int64) {
		s = open(t)
		s.at(limittest.Epoch)
		for i := range slots {
			slots[i] = book(s)
			if want := limittest.Epoch + int64(i)*1_000_000; slots[i] != want {
				t.Fatalf("place %d leaves at %d, want %d", i, slots[i], want)
			}
		}
		return s, slots
	}
	s, slots := start()
	if s.Refund(&queue, slots[2]) || s.Refund(&queue, slots[3]+1) || s.Refund(&queue, 0) {
		t.Error("a place before the last was given back")
	}
	if !s.Refund(&queue, slots[3]) || s.Refund(&queue, slots[3]) {
		t.Error("the last place was not given back once")
	}
	if again := book(s); again != slots[3] {
		t.Errorf("after the last was given back the next leaves at %d, want %d", again, slots[3])
	}
	s.Advance(1500 * time.Millisecond)
	if !s.Refund(&queue, slots[3]) || !s.Refund(&queue, slots[2]) || s.Refund(&queue, slots[1]) {
		t.Error("those that wait still may give back from the last on, those that have left may not")
	}
	if again := book(s); again != slots[2] {
		t.Errorf("then the next leaves at %d, want %d", again, slots[2])
	}

	s, slots = start()
	dear, other, moved := queue, queue, queue
	dear.Cost, other.Key = 2, []byte("other")
	moved.Limit = limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 3, FillRate: 2})
	counts := queue
	counts.Limit = limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 3, FillRate: 1})
	for _, c := range []store.Counter{dear, other, moved, counts} {
		if s.Refund(&c, slots[3]) {
			t.Errorf("%+v gave a place back that was another's", c)
		}
	}
	s.Advance(3 * time.Second)
	if s.Refund(&queue, slots[3]) {
		t.Error("a place was given back whose slot has come")
	}
}
