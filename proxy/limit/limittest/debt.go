package limittest

import (
	"testing"

	"weir/proxy/limit"
)

// debts charges a key more than its limit allows: looks are refused then, until RetryAfter.
func (s Subject) debts(t *testing.T) {
	for _, l := range Limits() {
		overshoot, _ := l.Overshoot()
		most := l.Burst() + overshoot
		if l.DebtMax() < most+3 {
			continue
		}
		late, look := limit.Charge{Cost: most + 3, N: 1, Debt: l.Debt(9)}, limit.Charge{N: 2, Debt: l.Debt(9)}
		take, now := s.Fresh(), Epoch
		if granted, d := take(now, l, look); granted != 2 || !d.Allowed || d.Remaining != l.Burst() {
			t.Errorf("%v, a look at a new key: %d, %+v", l.Config(), granted, d)
		}
		granted, charged := take(now, l, late)
		if granted != 0 || charged.Allowed || charged.Clipped {
			t.Errorf("%v, a charge beyond the limit: %d, %+v", l.Config(), granted, charged)
		}
		granted, d := take(now, l, look)
		if granted != 0 || d.Remaining != 0 || d.RetryAfter <= 0 || d.RetryAfter == limit.Never {
			t.Fatalf("%v, a look at what owes: %d, %+v", l.Config(), granted, d)
		}
		if charged.RetryAfter != d.RetryAfter {
			t.Errorf("%v, a charge beyond the limit: RetryAfter %v, want that of a look, %v", l.Config(), charged.RetryAfter,
				d.RetryAfter)
		}
		if c := l.Config(); overshoot == 0 && (c.Algorithm == limit.Token || c.Algorithm == limit.GCRA) {
			want := (4*interval(c) + pace(c) - 1) / pace(c) // regained at the rate of other permits
			if wait := d.RetryAfter.Microseconds(); wait != want {
				t.Errorf("%v, a look at 3 permits of debt: RetryAfter %v, want %d µs", l.Config(), d.RetryAfter, want)
			}
		}
		now += d.RetryAfter.Microseconds()
		if granted, _ := take(now-1, l, look); granted != 0 {
			t.Errorf("%v, a look before RetryAfter %v was admitted", l.Config(), d.RetryAfter)
		}
		if granted, d := take(now, l, look); granted != 2 {
			t.Errorf("%v, a look after RetryAfter: %d, %+v", l.Config(), granted, d)
		}
		late.Cost = 1 << 60
		if _, d := take(now, l, late); !d.Clipped || d.ResetAfter <= 0 {
			t.Errorf("%v, a charge beyond its debt: %+v", l.Config(), d)
		}
	}
}

// In flights, at most flying requests are between their look and their charge of up to flightCost.
const flying, flightCost = 3, 40

// flights has requests that look first and are charged when they are done. What is charged within
// any time is what the limit admits, and one cost for each request that may be in flight; for windows
// in each of them.
func (s Subject) flights(t *testing.T) {
	for _, l := range hard() {
		for seed := range s.Seeds {
			w := newWalk(uint64(seed), true, l)
			if charged := w.fly(l, s.Fresh()); !flightsLawful(l, charged) {
				t.Fatalf("%v, seed %d: more is charged than the limit admits: %v", l.Config(), seed, charged)
			}
		}
	}
}

// fly returns what such requests were charged.
func (w *walk) fly(l *limit.Limit, take Take) (charged []spent) {
	inFlight := int64(0)
	for range 100 {
		at := w.step(l).Now
		if granted, _ := take(at, l, limit.Charge{N: 1, Debt: l.Debt(1 << 20)}); inFlight < flying {
			inFlight += granted
		}
		if inFlight > 0 && w.IntN(3) > 0 {
			inFlight--
			late := limit.Charge{Cost: 1 + w.Int64N(flightCost), N: 1, Debt: l.Debt(1 << 20)}
			take(at, l, late)
			charged = append(charged, spent{at, late.Cost})
		}
	}
	return charged
}

func flightsLawful(l *limit.Limit, charged []spent) bool {
	window := l.Window().Microseconds()
	for i, first := range charged {
		sum, windows := int64(0), int64(1)
		for _, one := range charged[i:] {
			sum += one.cost
			if window > 0 && l.Algorithm() != limit.GCRA {
				windows = (one.at-first.at)/window + 2
			}
			if !lawful(l, sum-windows*flying*flightCost, first.at, one.at) {
				return false
			}
		}
	}
	return true
}

// restores charges a key with debt, and gives the same back: it is as if nothing had happened. A
// sliding_log gives back its oldest permits, and a queue none.
func (s Subject) restores(t *testing.T) {
	for _, l := range hard() {
		if a := l.Algorithm(); a == limit.SlidingLog || a == limit.Leaky {
			continue
		}
		for seed := range s.Seeds {
			s.restored(t, l, seed)
		}
	}
}

func (s Subject) restored(t *testing.T, l *limit.Limit, seed int) {
	w := newWalk(uint64(seed), s.Forward, l)
	w.debts = true
	h := w.history(l, 20)
	now, cost := h[len(h)-1].Now, 1+w.Int64N(5*l.Burst())
	with, add := s.Given()
	with.replay(h)
	without := s.Fresh()
	without.replay(h)
	with(now, l, limit.Charge{Cost: cost, N: 1, Debt: l.Debt(1 << 20)})
	if !add(now, cost) {
		t.Fatalf("%v, seed %d: %d could not be given back", l.Config(), seed, cost)
	}
	rest := w.history(l, 10)
	got, want := with.replay(rest), without.replay(rest)
	for i := range rest {
		if got[i] != want[i] {
			t.Fatalf("%v, seed %d, %v after %d were charged and given back:\n got %+v\nwant %+v", l.Config(), seed, rest[i], cost,
				got[i], want[i])
		}
	}
}
