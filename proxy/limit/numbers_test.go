package limit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

// A limit made of the numbers of another is the same.
func TestNumbers(t *testing.T) {
	none := testkit.Must(limit.NewFixed(0, time.Hour))(t)
	limits := append(limittest.Limits(), &none,
		limittest.Must(limit.Config{Algorithm: limit.Off}),
		limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 100 * 365 * 24 * 3600}),
		limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 7, Window: 0.3}),
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 3, FillRate: 0.1}),
		limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 3, FillRate: 16.7}))
	for _, l := range limits {
		same, err := l.Params().Limit()
		if err != nil || same != *l {
			t.Errorf("%+v: %+v, %v, want %+v", l.Params(), same, err, *l)
		}
	}
}

// Numbers that no limit has are refused, whatever they are.
func TestWrongNumbers(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: 60})
	for name, change := range map[string]func(n *limit.WireParams){
		"no algorithm":            func(n *limit.WireParams) { n.Algorithm = 0 },
		"an unknown algorithm":    func(n *limit.WireParams) { n.Algorithm = 99 },
		"negative permits":        func(n *limit.WireParams) { n.Permits, n.Burst = -1, -1 },
		"another burst":           func(n *limit.WireParams) { n.Burst = 6 },
		"no window":               func(n *limit.WireParams) { n.WindowOrRate = 0 },
		"a negative window":       func(n *limit.WireParams) { n.WindowOrRate = -1 },
		"a window without end":    func(n *limit.WireParams) { n.WindowOrRate = 1 << 62 },
		"overshoot without grace": func(n *limit.WireParams) { n.Overshoot = 1 },
		"grace without overshoot": func(n *limit.WireParams) { n.Grace = time.Second },
		"too much overshoot":      func(n *limit.WireParams) { n.Overshoot, n.Grace = 1<<62, time.Second },
		"negative overshoot":      func(n *limit.WireParams) { n.Overshoot, n.Grace = -1, time.Second },
		"half a microsecond":      func(n *limit.WireParams) { n.Overshoot, n.Grace = 1, 500 },
	} {
		n := l.Params()
		change(&n)
		if got, err := n.Limit(); err == nil {
			t.Errorf("%s: %+v is taken for %+v", name, n, got.Config())
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		random := func() int64 { return int64(r.Uint64() >> r.IntN(64)) }
		n := limit.WireParams{Algorithm: limit.Algorithm(r.IntN(9)), Permits: random(), WindowOrRate: random()}
		n.Burst = n.Permits
		if got, err := n.Limit(); err == nil && got.Params() != n {
			t.Fatalf("%+v became %+v", n, got.Params())
		}
	}
}
