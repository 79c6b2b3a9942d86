package limittest

import (
	"math"
	"math/big"
	"slices"
	"sort"
	"time"

	"weir/proxy/limit"
)

// A Model is one key, decided naively. The zero Model was never seen.
//
// Owned by its test.
type Model struct {
	kept  limit.Config // the limit it was kept under
	seen  bool
	at    int64    // the latest instant at which something was taken
	log   []spent  // fixed, sliding: what was taken, two windows back
	level *big.Int // token: pico-tokens at at
}

type spent struct{ at, cost int64 }

// Take is [limit.Limit.Take] on the model.
func (m *Model) Take(now int64, l *limit.Limit, cost, n int64) (granted int64, d limit.Decision) {
	for range n {
		d = m.one(now, l.Config(), cost)
		if d.Allowed {
			granted++
		}
	}
	return granted, d
}

// Admits says whether one ask would be admitted, and changes nothing.
func (m *Model) Admits(now int64, l *limit.Limit, cost int64) bool {
	trial := *m
	trial.log = slices.Clone(m.log)
	return trial.one(now, l.Config(), cost).Allowed
}

// one decides about one ask.
func (m *Model) one(now int64, c limit.Config, cost int64) limit.Decision {
	t := max(now, m.at)
	m.adopt(t, c)
	d := limit.Decision{Allowed: cost == 0 || m.free(t, c) >= cost, Limit: permits(c)}
	if d.Allowed && cost > 0 {
		m.spend(t, c, cost)
	}
	d.Remaining = max(0, m.free(t, c))
	if !m.isNew(t, c) {
		d.ResetAfter = m.first(now, t, c, func(at int64) bool { return m.isNew(at, c) })
	}
	if !d.Allowed {
		d.RetryAfter = m.first(now, t, c, func(at int64) bool { return m.free(at, c) >= cost })
	}
	return d
}

// adopt carries the key over to another limit, or starts it afresh.
func (m *Model) adopt(t int64, c limit.Config) {
	old := m.kept
	m.kept = c
	switch {
	case !m.seen:
		m.level = pico(c.Capacity)
	case c == old:
	case c.Algorithm != old.Algorithm || c.Window != old.Window:
		m.log, m.level, m.at = nil, pico(c.Capacity), t
	case c.Algorithm == limit.Token:
		m.level, m.at = carried(m.tokens(t, old), old, c), t
	}
}

// carried is what a bucket that holds level under old holds under c: all if it is
// full, else as much as c can hold, in whole parts of a token.
func carried(level *big.Int, old, c limit.Config) *big.Int {
	if level.Cmp(pico(old.Capacity)) == 0 {
		return pico(c.Capacity)
	}
	part := new(big.Int).GCD(nil, nil, big.NewInt(micros(c.FillRate)), pico(1))
	parts := new(big.Int).Div(level, part)
	return lesser(parts.Mul(parts, part), pico(c.Capacity))
}

func (m *Model) spend(t int64, c limit.Config, cost int64) {
	if c.Algorithm == limit.Token {
		m.level = m.tokens(t, c)
		m.level.Sub(m.level, pico(cost))
	} else {
		window := micros(c.Window)
		m.log = slices.DeleteFunc(m.log, func(s spent) bool { return s.at < t-2*window })
		m.log = append(m.log, spent{t, cost})
	}
	m.at, m.seen = t, true
}

// free is how many whole permits may be taken at t.
func (m *Model) free(t int64, c limit.Config) int64 {
	if c.Algorithm == limit.Token {
		tokens := m.tokens(t, c)
		return tokens.Div(tokens, pico(1)).Int64()
	}
	return c.Limit - m.used(t, c)
}

func (m *Model) isNew(t int64, c limit.Config) bool {
	if c.Algorithm == limit.Token {
		return m.tokens(t, c).Cmp(pico(c.Capacity)) == 0
	}
	return m.used(t, c) == 0
}

// used is ⌊(previous·(W−elapsed) + current·W)/W⌋, for fixed with previous 0.
func (m *Model) used(t int64, c limit.Config) int64 {
	window := micros(c.Window)
	var previous, current int64
	for _, s := range m.log {
		switch t/window - s.at/window {
		case 0:
			current += s.cost
		case 1:
			previous += s.cost
		}
	}
	if c.Algorithm == limit.Fixed {
		return current
	}
	elapsed := t % window
	elapsed -= elapsed % resolution(c.Window)
	weighted := product(previous, window-elapsed)
	weighted.Add(weighted, product(current, window))
	return weighted.Div(weighted, big.NewInt(window)).Int64()
}

// tokens is min(capacity, level + elapsed·fillRate) in pico-tokens: so many of
// them are added in a microsecond as the fillRate has micro-tokens per second.
func (m *Model) tokens(t int64, c limit.Config) *big.Int {
	refill := product(t-m.at, micros(c.FillRate))
	return lesser(refill.Add(refill, m.level), pico(c.Capacity))
}

// first is the time from now to the first instant after t of which holds is true;
// once it is, it stays so.
func (m *Model) first(now, t int64, c limit.Config, holds func(at int64) bool) time.Duration {
	horizon := 2 * micros(c.Window)
	if c.Algorithm == limit.Token {
		fill := pico(c.Capacity)
		horizon = fill.Div(fill, big.NewInt(micros(c.FillRate))).Int64() + 1
	}
	after := sort.Search(int(horizon+1), func(d int) bool { return holds(t + int64(d)) })
	if int64(after) > horizon {
		return limit.Never
	}
	return time.Duration(t-now+int64(after)) * time.Microsecond
}

// resolution is the documented unit, in microseconds, in which sliding counts the
// elapsed time of a window of that many seconds.
func resolution(window float64) int64 {
	switch {
	case window <= 60:
		return 1
	case window <= 24*3600:
		return 1000
	}
	return 1_000_000
}

func permits(c limit.Config) int64 {
	if c.Algorithm == limit.Token {
		return c.Capacity
	}
	return c.Limit
}

// micros is v, a decimal with at most six places, in millionths.
func micros(v float64) int64 { return int64(math.Round(v * 1e6)) }

func pico(tokens int64) *big.Int { return product(tokens, 1_000_000_000_000) }

func product(a, b int64) *big.Int {
	x := big.NewInt(a)
	return x.Mul(x, big.NewInt(b))
}

func lesser(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}
