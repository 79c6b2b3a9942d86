package limittest

import (
	"math/big"
	"sort"
	"time"

	"weir/proxy/limit"
)

// first returns the time from now to the first instant after t at which holds is true, or
// [limit.Never] if there is none. Once true, holds may change only where overshoot begins or
// ceases to be allowed.
func (m *model) first(now, t int64, c terms, holds func(at int64) bool) time.Duration {
	from := t
	if m.exceeded && c.overshoot > 0 {
		for _, turn := range []int64{m.began + c.grace, m.under + c.grace} {
			if turn <= from {
				continue
			}
			if at, found := search(from, turn-from-1, holds); found {
				return time.Duration(at-now) * time.Microsecond
			}
			from = turn
		}
	}
	if at, found := search(from, m.horizon(c), holds); found {
		return time.Duration(at-now) * time.Microsecond
	}
	return limit.Never
}

// search returns the first instant between from and from+span at which holds is true.
func search(from, span int64, holds func(at int64) bool) (at int64, found bool) {
	after := sort.Search(int(span+1), func(d int) bool { return holds(from + int64(d)) })
	return from + int64(after), int64(after) <= span
}

// horizon returns a time after which a key is in the state of a new key if nothing is taken.
func (m *model) horizon(c terms) int64 {
	switch c.Algorithm {
	case limit.Token, limit.GCRA, limit.Leaky:
		return new(big.Int).Div(m.ahead, big.NewInt(pace(c.Config))).Int64() + 1
	}
	return 2 * micros(c.Window)
}
