package limittest

import (
	"math"
	"math/big"
	"slices"
	"time"

	"weir/proxy/limit"
)

// A Model is the naive implementation of one key. The zero Model is a new key.
//
// Owned by its test.
type Model struct {
	kinds map[limit.Kind]*model
}

// Take is like [limit.Limit.Decide], for the model.
func (m *Model) Take(now int64, l *limit.Limit, charge limit.Charge) (granted int64, d limit.Decision) {
	for range charge.N {
		d = m.of(l).one(now, termsOf(l), charge)
		if d.Allowed {
			granted++
		}
	}
	return granted, d
}

// Admits reports whether one request would be admitted, and changes nothing.
func (m *Model) Admits(now int64, l *limit.Limit, charge limit.Charge) bool {
	trial := *m.of(l)
	trial.log = slices.Clone(trial.log)
	return trial.one(now, termsOf(l), charge).Allowed
}

// of returns the state under limits of l's kind. With another algorithm or window, a key has
// a separate state.
func (m *Model) of(l *limit.Limit) *model {
	if m.kinds == nil {
		m.kinds = make(map[limit.Kind]*model)
	}
	if m.kinds[l.Kind()] == nil {
		m.kinds[l.Kind()] = new(model)
	}
	return m.kinds[l.Kind()]
}

// A model is the state of one key under limits of one kind.
type model struct {
	kept     limit.Config // the latest limit
	seen     bool         // permits were taken
	at       int64        // the instant that ahead refers to; the latest at which the state changed
	log      []spent      // algorithms with windows: what was taken in the last two windows
	ahead    *big.Int     // token: missing pico-tokens; gcra, leaky: tat − at, in units of pace
	clear    int64        // token: when a debt beyond the capacity is forgiven, after a change of the limit; 0: none
	exceeded bool         // soft: the limit was exceeded
	began    int64        // soft: the first instant at which it was
	under    int64        // soft: the instant from which it no longer is
}

type spent struct{ at, cost int64 }

// terms are the numbers of a limit, hard and soft.
type terms struct {
	limit.Config
	overshoot, grace int64
}

func termsOf(l *limit.Limit) terms {
	overshoot, grace := l.Overshoot()
	return terms{l.Config(), overshoot, grace.Microseconds()}
}

// one decides one request.
func (m *model) one(now int64, c terms, charge limit.Charge) limit.Decision {
	if c.Algorithm == limit.Off {
		return limit.Decision{Allowed: true, Remaining: limit.Unlimited, Limit: limit.Unlimited}
	}
	t := max(now, m.at)
	m.adopt(t, c)
	if m.clear != 0 && t >= m.clear {
		m.ahead, m.at, m.clear = m.lead(t, c.Config), t, 0
		m.forgive(t, c)
	}
	d := limit.Decision{Allowed: m.admits(t, c, charge), Limit: max(permits(c.Config), burst(c.Config))}
	if d.Allowed && charge.Cost > 0 && c.Algorithm == limit.Leaky {
		wait := m.wait(t, c)
		d.Delay = time.Duration(t-now+wait) * time.Microsecond
		if wait > 0 {
			d.Slot = t + wait
		}
	}
	if (d.Allowed || charge.Debt > 0) && charge.Cost > 0 {
		d.Clipped = m.spend(t, c, charge)
	}
	d.Remaining = max(0, min(burst(c.Config), m.free(t, c))-charge.Reserve)
	if !m.isNew(t, c) {
		d.ResetAfter = m.first(now, t, c, func(at int64) bool { return m.isNew(at, c) })
	}
	if !d.Allowed {
		admits := func(at int64) bool { return m.admits(at, c, charge) }
		if d.RetryAfter = m.first(now, t, c, admits); d.RetryAfter == limit.Never && charge.Debt > 0 {
			charge.Cost = 0
			d.RetryAfter = m.first(now, t, c, admits)
		}
	}
	return d
}

// admits reports whether a request is admitted at t.
func (m *model) admits(t int64, c terms, charge limit.Charge) bool {
	if charge.Cost == 0 && charge.Debt == 0 {
		return true
	}
	most, free := burst(c.Config), m.free(t, c)
	if c.overshoot > 0 && m.mayExceed(t, c) {
		most, free = most+c.overshoot, free+c.overshoot
	}
	patient := c.Algorithm != limit.Leaky || charge.MaxDelay == 0 || m.wait(t, c) <= charge.MaxDelay.Microseconds()
	need := big.NewInt(max(charge.Cost, 1))
	need.Add(need, big.NewInt(charge.Reserve))
	return need.Cmp(big.NewInt(min(most, free))) <= 0 && patient
}

// mayExceed reports whether overshoot may be used at t.
func (m *model) mayExceed(t int64, c terms) bool {
	return !m.exceeded || t < m.began+c.grace || t >= m.under+c.grace
}

// adopt changes the state to that under another limit of its kind.
func (m *model) adopt(t int64, c terms) {
	old := m.kept
	m.kept = c.Config
	switch {
	case !m.seen:
		m.ahead = new(big.Int)
		return
	case c.FillRate != old.FillRate && c.Algorithm == limit.Token:
		lead := m.owed(t, old)
		m.ahead = inParts(lead, c.FillRate)
		full := t + new(big.Int).Div(new(big.Int).Add(lead, big.NewInt(pace(old)-1)), big.NewInt(pace(old))).Int64()
		switch {
		case m.clear == 0:
			m.clear = full
		case t >= m.clear:
			m.clear = 0
			if most := pico(c.Capacity); m.ahead.Cmp(most) > 0 {
				m.ahead = most
			}
		default:
			m.clear = min(m.clear, full)
		}
	case c.FillRate != old.FillRate && c.Algorithm == limit.Leaky:
		m.ahead = inParts(product(m.wait(t, terms{Config: old}), pace(c.Config)), c.FillRate)
	case c.Limit != old.Limit && c.Algorithm == limit.GCRA:
		m.ahead = m.lead(t, old)
	default:
		return
	}
	m.at = t
	m.forgive(t, c)
}

// forgive resets exceeded if the grace period is over, or c is a hard limit.
func (m *model) forgive(t int64, c terms) {
	if c.overshoot == 0 || t >= m.under+c.grace {
		m.exceeded = false
	}
}

// inParts rounds units up to whole parts of a permit. A part is the greatest common divisor
// of a permit and the rate. At most 2^53 parts are kept.
func inParts(units *big.Int, rate float64) *big.Int {
	part := new(big.Int).GCD(nil, nil, big.NewInt(micros(rate)), pico(1))
	parts := new(big.Int).Add(units, part)
	parts.Sub(parts, big.NewInt(1)).Div(parts, part)
	if most := big.NewInt(1 << 53); parts.Cmp(most) > 0 {
		parts = most
	}
	return parts.Mul(parts, part)
}

// spend takes what an ask costs, or as much of it as its debt permits.
func (m *model) spend(t int64, c terms, charge limit.Charge) (clipped bool) {
	cost := charge.Cost
	switch c.Algorithm {
	case limit.Token, limit.GCRA, limit.Leaky:
		lead := m.lead(t, c.Config)
		ahead := new(big.Int).Add(lead, product(cost, interval(c.Config)))
		most := product(charge.Debt+places(c.Config)-burst(c.Config), interval(c.Config))
		if charge.Debt > 0 && ahead.Cmp(most) > 0 {
			ahead, clipped = greater(lead, most), true
		}
		if ahead.Cmp(lead) == 0 {
			return clipped
		}
		m.ahead = ahead
		m.clear = 0
	default:
		if left := max(0, charge.Debt-m.used(t, c.Config)); charge.Debt > 0 && cost > left {
			cost, clipped = left, true
		}
		if cost == 0 {
			return clipped
		}
		window := micros(c.Window)
		m.log = slices.DeleteFunc(m.log, func(s spent) bool { return s.at < t-2*window })
		m.log = append(m.log, spent{t, cost})
	}
	m.at, m.seen = t, true
	m.forgive(t, c)
	if m.free(t, c) < 0 && c.overshoot > 0 {
		if !m.exceeded {
			m.exceeded, m.began = true, t
		}
		m.under = t
		m.under = t + m.first(t, t, c, func(at int64) bool { return m.free(at, c) >= 0 }).Microseconds()
	}
	return clipped
}

// free returns how many whole permits may be taken at t.
func (m *model) free(t int64, c terms) int64 {
	switch c.Algorithm {
	case limit.Token, limit.GCRA, limit.Leaky:
		room := product(places(c.Config), interval(c.Config))
		room.Sub(room, m.lead(t, c.Config))
		return room.Div(room, big.NewInt(interval(c.Config))).Int64()
	}
	return c.Limit - m.used(t, c.Config)
}

func (m *model) isNew(t int64, c terms) bool {
	if m.exceeded && c.overshoot > 0 && t < m.under+c.grace {
		return false
	}
	switch c.Algorithm {
	case limit.Token, limit.GCRA, limit.Leaky:
		return m.owed(t, c.Config).Sign() == 0
	}
	return m.used(t, c.Config) == 0
}

// used returns ⌊(previous·(W−elapsed) + current·W)/W⌋, with previous = 0 for fixed. For
// sliding_log it returns what was taken less than a window ago.
func (m *model) used(t int64, c limit.Config) int64 {
	window := micros(c.Window)
	var previous, current, recent int64
	for _, s := range m.log {
		switch t/window - s.at/window {
		case 0:
			current += s.cost
		case 1:
			previous += s.cost
		}
		if t-s.at < window {
			recent += s.cost
		}
	}
	switch c.Algorithm {
	case limit.Fixed:
		return current
	case limit.SlidingLog:
		return recent
	}
	elapsed := t % window
	elapsed -= elapsed % resolution(c.Window)
	weighted := product(previous, window-elapsed)
	weighted.Add(weighted, product(current, window))
	return weighted.Div(weighted, big.NewInt(window)).Int64()
}

// lead returns max(0, tat − t). For token it returns the missing pico-tokens; the pico-tokens
// added per microsecond are as many as the micro-tokens per second of fillRate.
func (m *model) lead(t int64, c limit.Config) *big.Int {
	lead := m.owed(t, c)
	if m.clear != 0 && t >= m.clear {
		most := product(m.clear-t, pace(c))
		if most.Add(most, pico(c.Capacity)); lead.Cmp(most) > 0 {
			return greater(most, new(big.Int))
		}
	}
	return lead
}

// owed is like lead, but does not forgive anything at clear.
func (m *model) owed(t int64, c limit.Config) *big.Int {
	owed := product(m.at-t, pace(c))
	return greater(owed.Add(owed, m.ahead), new(big.Int))
}

// wait returns lead in microseconds, rounded up.
func (m *model) wait(t int64, c terms) int64 {
	lead := m.lead(t, c.Config)
	lead.Add(lead, big.NewInt(pace(c.Config)-1))
	return lead.Div(lead, big.NewInt(pace(c.Config))).Int64()
}

// pace returns how many units a microsecond has. The unit is chosen so that interval, the
// time between two permits, is a whole number of units.
func pace(c limit.Config) int64 {
	if c.Algorithm == limit.GCRA {
		return c.Limit
	}
	return micros(c.FillRate)
}

func interval(c limit.Config) int64 {
	if c.Algorithm == limit.GCRA {
		return micros(c.Window)
	}
	return 1_000_000_000_000
}

// places returns how many intervals tat may be ahead. A queue has one more than its
// capacity, for the request that is admitted at once.
func places(c limit.Config) int64 {
	switch c.Algorithm {
	case limit.GCRA:
		return c.Burst
	case limit.Token:
		return c.Capacity
	}
	return c.Capacity + 1
}

// resolution returns the documented unit in which sliding counts the elapsed time, in
// microseconds, for a window in seconds.
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
	if c.Algorithm == limit.Token || c.Algorithm == limit.Leaky {
		return c.Capacity
	}
	return c.Limit
}

// burst returns how many permits can be taken at once without overshoot.
func burst(c limit.Config) int64 {
	if c.Algorithm == limit.GCRA {
		return c.Burst
	}
	return permits(c)
}

// micros returns v, which has at most six decimal places, in millionths.
func micros(v float64) int64 { return int64(math.Round(v * 1e6)) }

func pico(tokens int64) *big.Int { return product(tokens, 1_000_000_000_000) }

func product(a, b int64) *big.Int {
	x := big.NewInt(a)
	return x.Mul(x, big.NewInt(b))
}

func greater(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}
