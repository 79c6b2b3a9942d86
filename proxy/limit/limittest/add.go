package limittest

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/proxy/limit"
)

// Add gives permits to one key, as [limit.State.Add] does, for each kind of limit that the
// key has a state for.
type Add func(now, n int64) (changed bool)

// RandomAdd returns a random number of permits, mostly a few.
func RandomAdd(r *rand.Rand, l *limit.Limit) int64 {
	if r.IntN(8) == 0 {
		return []int64{0, l.Burst(), 1 << 53, 1<<63 - 1}[r.IntN(4)]
	}
	return 1 + r.Int64N(min(l.Burst(), 4))
}

// Add is like [limit.State.Add], for the model and every kind.
func (m *Model) Add(now, n int64) (changed bool) {
	for _, one := range m.kinds {
		changed = one.add(now, n) || changed
	}
	return changed
}

func (m *model) add(now, n int64) (changed bool) {
	c := m.kept
	if !m.seen || n == 0 || c.Algorithm == limit.Leaky {
		return false
	}
	t := max(now, m.at)
	switch c.Algorithm {
	case limit.Token, limit.GCRA:
		lead := m.owed(t, c)
		less := new(big.Int).Sub(lead, product(n, interval(c)))
		if changed = lead.Sign() > 0; changed {
			m.ahead = greater(less, new(big.Int))
		}
	default:
		changed = m.refund(t, c, n)
	}
	if changed {
		m.at = t
	}
	return changed
}

// refund removes permits from the log, one at a time, until n more are free or none is
// left: for sliding_log the oldest first, for others those of the current window first.
func (m *model) refund(t int64, c limit.Config, n int64) (changed bool) {
	window, used := micros(c.Window), m.used(t, c)
	counts := []func(s spent) bool{
		func(s spent) bool { return s.at/window == t/window },
		func(s spent) bool { return s.at/window == t/window-1 },
	}
	switch c.Algorithm {
	case limit.Fixed:
		counts = counts[:1]
	case limit.SlidingLog:
		counts = []func(s spent) bool{func(s spent) bool { return t-s.at < window }}
	}
	for _, those := range counts {
		for left := m.used(t, c); left > 0 && used-left < n; left = m.used(t, c) {
			i := slices.IndexFunc(m.log, those)
			if i < 0 {
				break
			}
			changed = true
			m.log[i].cost--
			if m.log[i].cost == 0 {
				m.log = slices.Delete(m.log, i, i+1)
			}
		}
	}
	return changed
}

// adds tests State.Add between the steps of histories whose limit changes occasionally, by comparing
// the answers with those of the model.
func (s Subject) adds(t *testing.T) {
	limits := Limits()
	for i, l := range limits {
		others := []*limit.Limit{l, limits[(i+1)%len(limits)]}
		if cfg := l.Config(); cfg.Algorithm == limit.Token || cfg.Algorithm == limit.Fixed || cfg.Algorithm == limit.GCRA {
			cfg.Limit, cfg.Capacity = cfg.Limit*2, cfg.Capacity*2
			others = append(others, Must(cfg))
		}
		for seed := range s.Seeds {
			s.addsTo(t, seed, others)
		}
	}
}

// addsTo tests State.Add with one history, mostly under the first of the limits.
func (s Subject) addsTo(t *testing.T, seed int, limits []*limit.Limit) {
	w, m := newWalk(uint64(seed), s.Forward, limits...), new(Model)
	w.debts = seed%2 == 1
	take, add := s.Given()
	for step := range 60 {
		under := limits[0]
		if w.IntN(6) == 0 {
			under = limits[w.IntN(len(limits))]
		}
		a := w.step(under)
		n := RandomAdd(w.Rand, under)
		if got, want := add(a.Now, n), m.Add(a.Now, n); got != want {
			t.Fatalf("seed %d, step %d, before %v: %d given: %v, want %v", seed, step, a, n, got, want)
		}
		granted, d := take(a.Now, under, a.Charge)
		wantGranted, want := m.Take(a.Now, under, a.Charge)
		if granted != wantGranted || d != want {
			t.Fatalf("seed %d, step %d, %v after %d were given:\n got %d, %+v\nwant %d, %+v", seed, step, a, n, granted, d,
				wantGranted, want)
		}
	}
}

// gains compares what a key admits at an instant before and after permits are given: as
// many more as were given, but never more than a new key. What was admitted beyond a soft
// limit is deducted first.
func (s Subject) gains(t *testing.T) {
	for _, l := range Limits() {
		overshoot, _ := l.Overshoot()
		most := l.Burst() + overshoot
		for seed := range s.Seeds {
			w := newWalk(uint64(seed), s.Forward, l)
			h, n := w.history(l, 20), RandomAdd(w.Rand, l)
			all := limit.Charge{Cost: 1, N: most + 2}
			fork := func() (Take, Add) {
				take, add := s.Given()
				take.replay(h)
				return take, add
			}
			now := h[len(h)-1].Now
			take, _ := fork()
			before, _ := take(now, l, all)
			take, add := fork()
			changed := add(now, n)
			after, _ := take(now, l, all)
			want := before + min(n, most-before)
			if l.Algorithm() == limit.Leaky {
				want = before
			}
			// an excess over a soft limit is deducted first
			if after > want || after < want && overshoot == 0 || after < before {
				t.Errorf("%v, seed %d, %d given: %d admitted, %d before, want %d", l.Config(), seed, n, after, before, want)
			}
			if after > before && !changed {
				t.Errorf("%v, seed %d: %d given changed nothing, but %d are admitted after %d", l.Config(), seed, n, after, before)
			}
		}
	}
}
