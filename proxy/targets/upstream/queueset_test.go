package upstream_test

import (
	"testing"
	"time"

	"weir/proxy/targets/upstream"
)

// Of the loops whose queues ask for places, the next place goes to the one where the highest rank
// waits, and of these to the one with the fewest places, if it sends requests to the target.
// Otherwise a loop yields to higher ranks, and to the same rank on loops with fewer places.
func TestQueuesTakeTurns(t *testing.T) {
	const mine = 1
	for _, test := range []struct {
		name  string
		taken [3]int
		asks  [3]int // the highest rank that waits, from 1; 0: nobody does
		open  [3]bool
		rank  int // that wants the place on this loop, from 1; 0: nobody does
		want  int
	}{
		{"a higher rank waits elsewhere", [3]int{9, 4, 3}, [3]int{1, 2, 2}, [3]bool{true, true, true}, 2, 0},
		{"a lower rank waits elsewhere", [3]int{0, 4, 1}, [3]int{3, 2, 4}, [3]bool{true, true, true}, 2, -1},
		{"a higher rank than in line comes", [3]int{0, 4, 5}, [3]int{2, 2, 2}, [3]bool{true, true, true}, 1, -1},
		{"the highest rank is not open", [3]int{0, 4, 3}, [3]int{1, 3, 2}, [3]bool{false, true, true}, 3, 2},
		{"nobody asks", [3]int{0, 5, 0}, [3]int{}, [3]bool{true, true, true}, 1, -1},
		{"only this one asks", [3]int{0, 5, 0}, [3]int{0, 1, 0}, [3]bool{true, true, true}, 1, -1},
		{"another has fewer", [3]int{3, 4, 9}, [3]int{1, 1, 1}, [3]bool{true, true, true}, 1, 0},
		{"as many", [3]int{4, 4, 4}, [3]int{1, 1, 1}, [3]bool{true, true, true}, 1, -1},
		{"others have more", [3]int{5, 4, 6}, [3]int{1, 1, 1}, [3]bool{true, true, true}, 1, -1},
		{"others have more, and this one wants none", [3]int{6, 4, 5}, [3]int{1, 0, 1}, [3]bool{true, true, true}, 0, 2},
		{"the one with fewest is not open", [3]int{0, 4, 3}, [3]int{1, 1, 1}, [3]bool{false, true, true}, 1, 2},
		{"none is open", [3]int{0, 4, 3}, [3]int{1, 1, 1}, [3]bool{}, 0, -1},
		{"who has fewer does not ask", [3]int{0, 4, 9}, [3]int{0, 1, 1}, [3]bool{true, true, true}, 1, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			queues, now := upstream.NewQueueSet(3), time.Unix(1, 0)
			var all [3]*upstream.Queue[int]
			for loop := range all {
				all[loop] = upstream.NewQueue[int](10, plenty)
				all[loop].JoinSet(queues, loop)
				if rank := test.asks[loop]; rank > 0 {
					w := new(upstream.Waiter[int])
					w.SetHashes(1, 0, 0)
					w.Ranked(rank - 1)
					all[loop].Join(now, w)
				}
				for range test.taken[loop] {
					all[loop].Take(now, new(upstream.Waiter[int]), usual)
				}
				if asks := test.asks[loop] > 0; all[loop].Publish() != asks {
					t.Errorf("loop %d asks for the first time: %v", loop, !asks)
				}
			}
			rank := upstream.PriorityLevels
			if test.rank > 0 {
				rank = test.rank - 1
			}
			if got := all[mine].Rival(rank, func(loop int) bool { return test.open[loop] }); got != test.want {
				t.Errorf("the next place is for loop %d, want %d", got, test.want)
			}
		})
	}
}

// Loops that have no places take turns, so that more loops than places all have some.
func TestQueuesWithoutPlacesTakeTurns(t *testing.T) {
	queues, now := upstream.NewQueueSet(3), time.Unix(1, 0)
	var all [3]*upstream.Queue[int]
	for loop := range all {
		all[loop] = upstream.NewQueue[int](10, plenty)
		all[loop].JoinSet(queues, loop)
		for range 3 {
			all[loop].Join(now, new(upstream.Waiter[int]))
		}
		all[loop].Publish()
	}
	loop := 0
	for _, want := range []int{1, 2, 0, 1, 2, 0} {
		for range len(all) {
			rival := all[loop].Rival(0, func(int) bool { return true })
			if rival < 0 {
				break
			}
			loop = rival
		}
		if loop != want {
			t.Fatalf("it is the turn of loop %d, want %d", loop, want)
		}
		w := all[loop].Next(now)
		all[loop].Take(now, w, usual)
		all[loop].Give(now, w)
	}
}

// A queue stops asking for places when its last waiter leaves, or when no waiter may have the
// place.
func TestQueuesAskNoLonger(t *testing.T) {
	queues, now := upstream.NewQueueSet(2), time.Unix(1, 0)
	here, there := upstream.NewQueue[int](10, plenty), upstream.NewQueue[int](10, plenty)
	here.JoinSet(queues, 0)
	there.JoinSet(queues, 1)
	var w upstream.Waiter[int]
	for _, end := range []func(){func() { there.Leave(now, &w) }, func() { there.Next(now) }} {
		there.Join(now, &w)
		there.Publish()
		if there.Publish() {
			t.Error("what is known already is said to be news")
		}
		if here.Idle() || here.Rival(0, func(int) bool { return true }) != 1 ||
			here.Rival(upstream.PriorityLevels, func(int) bool { return true }) != 1 {
			t.Error("it is not seen that somebody waits on another loop")
		}
		if end(); !here.Idle() {
			t.Error("nobody waits, and it looks as if somebody did")
		}
	}
}

// A waiter hands its places over, and may then take others.
func TestHand(t *testing.T) {
	now := time.Unix(1, 0)
	p := upstream.NewPool[int, int](4, 2, 4)
	queues := upstream.NewQueueSet(1)
	l := upstream.NewQueue[int](4, look(func() int { return 0 }))
	l.JoinSet(queues, 0)
	from, to := upstream.Waiter[int]{Value: 1}, upstream.Waiter[int]{Value: 2}
	from.SetHashes(7, 0, 0)
	from.Ranked(3)
	for range 2 { // the second time from takes others
		if !p.Stream(&from) {
			t.Fatal("there is no place for a stream")
		}
		l.Take(now, &from, usual)
		l.Hand(&from, &to)
		if first := l.First(now); first != nil {
			t.Errorf("%+v waits", first)
		}
		if from.Streams() || !to.Streams() || to.Value != 2 || to.Rank() != 3 || p.Streams() != 1 || queues.Taken() != 1 {
			t.Errorf("%d streams, %d places, from %+v, to %+v", p.Streams(), queues.Taken(), from, to)
		}
		p.End(&from) // it has none
		l.Give(now, &from)
		p.End(&to)
		l.Give(now, &to)
		if p.Streams() != 0 || queues.Taken() != 0 {
			t.Errorf("in the end %d streams and %d places", p.Streams(), queues.Taken())
		}
	}
}
