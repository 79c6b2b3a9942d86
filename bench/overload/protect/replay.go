package protect

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// A replay is the target with nothing in front, in virtual time.
type replay struct {
	s          *Scenario
	chance     *rand.Rand
	free       []time.Duration // when each worker becomes free
	queue      []time.Duration // when waiting requests get a worker
	cache      *cache          // nil for none
	gone, back time.Duration   // the outage to come; back is 0 if there is none
}

// An attempt is one sending of a request.
type attempt struct {
	at      time.Duration
	of      int // index of the request
	retries int // before it
}

// fifo returns when each of the requests, sorted by due time, would have been answered with nothing
// in front of the target; negative for not at all. Service times, keys, and the pauses of clients
// are drawn again, so the result is correct on average.
func (s *Scenario) fifo(all []request, chance *rand.Rand) []time.Duration {
	t := &replay{s: s, chance: chance, free: make([]time.Duration, s.Workers), cache: s.newCache()}
	t.gone, t.back = s.outage()
	done := slices.Repeat([]time.Duration{-1}, len(all))
	var later []attempt // to come, by time
	play := func(a attempt) {
		answered := t.answer(a.at, all[a.of].slow)
		switch {
		case answered >= 0 && (s.Retries == 0 || answered <= a.at+attemptMax):
			done[a.of] = answered
		case a.retries < s.Retries:
			next := attempt{a.at + pause(chance), a.of, a.retries + 1}
			if answered >= 0 {
				next.at += attemptMax
			}
			i, _ := slices.BinarySearchFunc(later, next, func(a, b attempt) int { return cmp.Compare(a.at, b.at) })
			later = slices.Insert(later, i, next)
		}
	}
	for i := 0; i < len(all) || len(later) > 0; {
		if len(later) > 0 && (i == len(all) || later[0].at < all[i].Due) {
			first := later[0]
			later = later[1:]
			play(first)
			continue
		}
		play(attempt{all[i].Due, i, 0})
		i++
	}
	return done
}

// answer returns when a request that comes at an instant, after those before, is answered;
// negative for never.
func (t *replay) answer(at time.Duration, slow bool) time.Duration {
	if t.gone <= at && at < t.back {
		return -1
	}
	if at >= t.back && t.back > 0 { // a new process, with idle workers
		t.free, t.queue, t.back = slices.Repeat([]time.Duration{t.back}, t.s.Workers), nil, 0
	}
	key := 0
	if t.cache != nil {
		if key = t.s.key(t.chance.Float64()); t.cache.has(key, at) {
			return at + hitTime
		}
	}
	for len(t.queue) > 0 && t.queue[0] <= at {
		t.queue = t.queue[1:]
	}
	w := slices.Index(t.free, slices.Min(t.free))
	start := max(at, t.free[w])
	if start > at {
		if len(t.queue) >= t.s.Queue {
			return -1
		}
		t.queue = append(t.queue, start)
	}
	t.free[w] = t.s.end(t.chance, start, slow)
	if t.cache != nil {
		t.cache.fill(key, t.free[w])
	}
	if t.back == 0 || t.free[w] <= t.gone {
		return t.free[w]
	}
	return -1
}
