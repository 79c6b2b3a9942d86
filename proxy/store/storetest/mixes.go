package storetest

import (
	"math/rand/v2"
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// mixes asks about one key under several limits, as proxies that disagree do, for example while a
// change is rolled out. In whatever order the limits are used, what they admit together is at
// most the sum of what each limit admits in that time.
func mixes(t *testing.T, open Open) {
	minute := limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 60}
	longer := limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 61}
	families := [][]limit.Config{{minute, longer}}
	for _, a := range []limit.Algorithm{limit.Fixed, limit.Sliding, limit.SlidingLog, limit.GCRA} {
		families = append(families, []limit.Config{
			{Algorithm: a, Limit: 10, Window: 60, Burst: 1},
			{Algorithm: a, Limit: 25, Window: 60, Burst: 9},
			{Algorithm: a, Limit: 10, Window: 7, Burst: 4},
		})
	}
	for _, a := range []limit.Algorithm{limit.Token, limit.Leaky} {
		families = append(families, []limit.Config{
			{Algorithm: a, Capacity: 10, FillRate: 1},
			{Algorithm: a, Capacity: 100, FillRate: 1},
			{Algorithm: a, Capacity: 5, FillRate: 3.7},
		})
	}
	// what is owed under the large one must not be forgotten under the small one
	families = append(families, []limit.Config{
		{Algorithm: limit.Token, Capacity: 300, FillRate: 6},
		{Algorithm: limit.Token, Capacity: 5, FillRate: 0.1},
		{Algorithm: limit.Token, Capacity: 50, FillRate: 0.5},
	})
	var all []limit.Config
	for _, family := range families[1:] {
		all = append(all, family[0], family[2])
	}
	for i, family := range append(families, all) {
		for seed := range uint64(3) {
			mix(t, open(t), family, rand.New(rand.NewPCG(seed, uint64(i))))
		}
	}
}

// mix uses the limits of a family in random order for some of their windows.
func mix(t *testing.T, s Store, family []limit.Config, r *rand.Rand) {
	now, end := limittest.Epoch, limittest.Epoch+200_000_000
	most := 0.0
	var counters []store.Counter
	for _, c := range family {
		l := limittest.Must(c)
		counters = append(counters, store.Counter{Rule: "r", Key: []byte("key"), Limit: l, Cost: 1})
		most += admittedIn(l, now, end)
	}
	s.at(now)
	admitted := 0
	for ; now < end; now += r.Int64N(2_000_000) {
		s.at(now)
		for _, i := range r.Perm(len(counters)) {
			admitted += s.ask(1+r.IntN(3)*r.IntN(50), counters[i]).Granted
		}
	}
	if float64(admitted) > most {
		t.Errorf("%+v: %d admitted, want at most %.1f", family, admitted, most)
	}
}

// admittedIn returns the most that a limit admits between two instants in µs.
func admittedIn(l *limit.Limit, from, to int64) float64 {
	span := float64(to-from) / 1e6
	switch l.Algorithm() {
	case limit.Token, limit.GCRA:
		return float64(l.Burst()) + span*l.Rate()
	case limit.Leaky:
		return float64(l.Burst()+1) + span*l.Rate()
	}
	window := l.Window().Microseconds()
	return float64((to/window - from/window + 1) * l.Permits())
}
