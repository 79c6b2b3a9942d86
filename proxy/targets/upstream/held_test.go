package upstream_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/proxy/targets/upstream"
)

// a visit is a request of a client on a route.
func visit(client uint64, route uint8) *upstream.Waiter[int] {
	w := new(upstream.Waiter[int])
	w.SetHashes(client, 0, route)
	return w
}

// quick lets clients have places for the usual time, often enough to be known.
func quick(l *upstream.Queue[int], now time.Time, clients ...uint64) time.Time {
	for range 100 {
		for _, client := range clients {
			w := visit(client, 0)
			l.Take(now, w, usual)
			now = now.Add(usual)
			l.Give(now, w)
		}
	}
	return now
}

// A client of which nothing is known takes places only as long as enough for the others remain,
// even if it asks for all of them at once. On a route that others do not use it is the same.
func TestSharesAreReserved(t *testing.T) {
	for name, w := range map[string]func() *upstream.Waiter[int]{
		"client": func() *upstream.Waiter[int] { return visit(100, 0) },
		"route":  func() *upstream.Waiter[int] { return visit(100, 7) },
	} {
		for _, places := range []int{4, 16, 100} {
			taken := 0
			l := upstream.NewQueue[int](10, look(func() int { return places - taken }))
			l.Take(time.Unix(1, 0), visit(200, 9), usual) // there are routes
			now := quick(l, time.Unix(1, 0), 1, 2, 3)
			for l.Admits(now, w()) && taken < places {
				l.Take(now, w(), usual)
				taken++
			}
			if least := max(1, places/2-2); taken < least || taken == places {
				t.Errorf("%s: one takes %d of %d places, want at least %d, and not all", name, taken, places, least)
			}
			if !l.Admits(now, visit(1, 0)) {
				t.Errorf("%s: beside it the others have no place", name)
			}
		}
	}
}

// A client that holds places no longer than others do may have all of them, and so may one that is
// alone.
func TestQuickClientsShareAll(t *testing.T) {
	for _, others := range [][]uint64{{2, 3}, nil} {
		const places = 16
		taken := 0
		l := upstream.NewQueue[int](10, look(func() int { return places - taken }))
		now := quick(l, time.Unix(1, 0), append(others, 1)...)
		for l.Admits(now, visit(1, 0)) && taken < places {
			l.Take(now, visit(1, 0), usual)
			taken++
		}
		if taken < places {
			t.Errorf("beside %d others one takes %d of %d places, want all", len(others), taken, places)
		}
	}
}

// Requests have been overtaken when many that came later have given their places back, the more
// the more were there before. Lengthen frees their places, and they are not found again.
func TestOvertaken(t *testing.T) {
	l, now := upstream.NewQueue[int](10, plenty), time.Unix(1, 0)
	var slow []*upstream.Waiter[int]
	for i := range 3 {
		w := visit(uint64(i), 0)
		w.Value = i
		l.Take(now, w, usual)
		slow = append(slow, w)
	}
	held := func(least time.Duration) (list []int) {
		for w, had := range l.LongHeld(now, least) {
			if had < least {
				t.Errorf("%d had its place for %v, want %v", w.Value, had, least)
			}
			list = append(list, w.Value)
		}
		return list
	}
	for n := 0; ; n++ {
		got := held(0)
		// 8, and three times as many as were there
		want := []int{0, 1, 2}[:max(0, min(3, (n-8)/3+1))]
		if n < 8 {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %d later ones %v have been overtaken, want %v", n, got, want)
		}
		if n > 20 {
			break
		}
		w := visit(9, 0)
		l.Take(now, w, usual)
		now = now.Add(usual)
		l.Give(now, w)
	}
	if got := held(time.Hour); got != nil {
		t.Errorf("%v have had their places for an hour", got)
	}
	l.Lengthen(slow[1])
	if got := held(0); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("without the one that is lengthened there are %v, want [0 2]", got)
	}
	for _, w := range slow {
		l.Give(now, w)
	}
	if got := held(0); got != nil {
		t.Errorf("%v have places", got)
	}
}

// A key that was never used ranks behind one that is used regularly and has few places, and before
// one with many. However many keys a client uses, they are behind those of other clients.
func TestNewKeysAreBehindRegularOnes(t *testing.T) {
	const (
		regular = 1
		greedy  = 2
		fresh   = 1000
	)
	of := func(client, key uint64) *upstream.Waiter[int] {
		w := new(upstream.Waiter[int])
		w.Value = int(key)
		w.SetHashes(client, key, 0)
		return w
	}
	l, now := upstream.NewQueue[int](100, plenty), time.Unix(1, 0)
	for range 300 {
		w := of(1, regular)
		l.Take(now, w, usual)
		many := []*upstream.Waiter[int]{of(1, greedy), of(1, greedy), of(1, greedy), of(1, greedy)}
		for _, w := range many {
			l.Take(now, w, usual)
		}
		now = now.Add(usual)
		l.Give(now, w)
		for _, w := range many {
			l.Give(now, w)
		}
	}
	for i := range uint64(10) {
		l.Join(now, of(1, fresh+i))
	}
	l.Join(now, of(1, greedy))
	l.Join(now, of(1, regular))
	var order []string
	for w := l.Next(now); w != nil; w = l.Next(now) {
		order = append(order, fmt.Sprint(w.Value))
	}
	if len(order) != 12 || order[0] != "1" || order[11] != "2" {
		t.Errorf("the order is %v, want the regular one first and the greedy one last", order)
	}
}

// What another loop had is forgotten, also if it has had no request since.
func TestIdleLoopsAreForgotten(t *testing.T) {
	queues := upstream.NewQueueSet(2)
	taken := 0
	here, there := upstream.NewQueue[int](10, look(func() int { return 16 - taken })), upstream.NewQueue[int](10, plenty)
	here.JoinSet(queues, 0)
	there.JoinSet(queues, 1)
	now := quick(there, time.Unix(1, 0), 1, 2, 3)
	now = quick(here, now, 4).Add(time.Hour)
	for here.Admits(now, visit(100, 0)) && taken < 16 {
		here.Take(now, visit(100, 0), usual)
		taken++
	}
	if taken < 16 {
		t.Errorf("the only client has %d of 16 places", taken)
	}
}

// First is the waiter that came first, whatever its rank.
func TestFirst(t *testing.T) {
	l, now := upstream.NewQueue[int](10, plenty), time.Unix(1, 0)
	if got := l.First(now); got != nil {
		t.Errorf("the first in an empty line is %+v, want none", got)
	}
	first := waiterFor(1, 5)
	l.Join(now, first)
	l.Join(now, waiterFor(2, 0))
	if got := l.First(now); got != first {
		t.Errorf("the first is %+v, want %+v, which came first", got, first)
	}
}
