package limittest

import (
	"testing"

	"weir/proxy/limit"
)

func (s Subject) never(t *testing.T) {
	for _, l := range Limits() {
		take := s.Fresh()
		overshoot, _ := l.Overshoot()
		most := l.Burst() + overshoot
		for _, charge := range []limit.Charge{one(most + 1), one(1 << 40), one(1<<63 - 1), {Cost: 1, N: 2, Reserve: most}} {
			want := Answer{0, limit.Decision{Remaining: max(0, l.Burst()-charge.Reserve), Limit: l.Quota(),
				RetryAfter: limit.Never}}
			granted, d := take(Epoch, l, charge)
			if got := (Answer{granted, d}); got != want {
				t.Errorf("%+v of %v:\n got %+v\nwant %+v", charge, l.Config(), got, want)
			}
		}
		if granted, d := take(Epoch, l, one(most)); granted != 1 {
			t.Errorf("all permits of %v at once were refused: %+v", l.Config(), d)
		}
	}
}

// resets compares a key after ResetAfter, and a microsecond earlier, with a new key, by asking
// for all permits.
func (s Subject) resets(t *testing.T) {
	s.forks(t, func(step Step, a Answer, fork func() Take) {
		l := step.Limit
		overshoot, _ := l.Overshoot()
		all := one(l.Burst() + overshoot)
		reset := step.Now + a.Decision.ResetAfter.Microseconds()
		if a.Decision.ResetAfter > 0 {
			og, od := fork()(reset-1, l, all)
			fg, fd := s.Fresh()(reset-1, l, all)
			if og == fg && od == fd {
				t.Errorf("%v: ResetAfter %v, but the key is as new a microsecond earlier", step, a.Decision.ResetAfter)
			}
		}
		old, fresh := fork(), s.Fresh()
		for _, at := range []int64{reset, reset + 1, reset + turnover(l)/3, reset + turnover(l)} {
			for _, charge := range []limit.Charge{{Cost: 1, N: 2}, {Cost: all.Cost, N: 1}} {
				og, od := old(at, l, charge)
				fg, fd := fresh(at, l, charge)
				if og != fg || od != fd {
					t.Errorf("%v: after ResetAfter %v: %+v, a new key: %+v", step, a.Decision.ResetAfter, od, fd)
				}
			}
		}
	})
}

// reserves checks that an ask with a Reserve is admitted exactly if an ask for both together
// is, and that the Reserve is left afterwards.
func (s Subject) reserves(t *testing.T) {
	s.forks(t, func(step Step, _ Answer, fork func() Take) {
		l := step.Limit
		some, all := one(1), one(1+l.Burst()/3)
		some.Reserve = l.Burst() / 3
		take := fork()
		granted, d := take(step.Now, l, some)
		wantGranted, want := fork()(step.Now, l, all)
		if granted != wantGranted || d.RetryAfter != want.RetryAfter {
			t.Errorf("%v, then %+v: %d, %+v\nand of %+v: %d, %+v", step, some, granted, d, all, wantGranted, want)
		}
		if overshoot, _ := l.Overshoot(); granted == 0 || overshoot > 0 {
			return
		}
		if _, look := take(step.Now, l, limit.Charge{N: 1}); look.Remaining < some.Reserve {
			t.Errorf("%v, then %+v: %d left, want at least %d", step, some, look.Remaining, some.Reserve)
		}
	})
}

// queues checks that each request leaves a queue when the time of the request before it has
// passed, neither earlier nor later, up to a microsecond of rounding.
func (s Subject) queues(t *testing.T) {
	s.histories(t, 100, func(t *testing.T, h []Step) {
		if h[0].Limit.Algorithm() != limit.Leaky {
			return
		}
		take, free := s.Fresh(), int64(0) // free: when the next may leave
		c, latest := h[0].Limit.Config(), int64(0)
		for _, step := range h {
			step.N = 1
			granted, d := take(step.Now, step.Limit, step.Charge)
			if granted == 0 || step.Cost == 0 {
				if d.Delay != 0 {
					t.Fatalf("%v: a delay without a place in the queue: %+v", step, d)
				}
				continue
			}
			latest = max(latest, step.Now)
			slot := step.Now + d.Delay.Microseconds()
			if slot < free-1 || slot > max(free, latest)+1 {
				t.Fatalf("%v: leaves at %d, want %d or %d", step, slot, free, latest)
			}
			if step.MaxDelay > 0 && d.Delay > step.MaxDelay && s.Forward {
				t.Fatalf("%v: waits %v", step, d.Delay)
			}
			free = slot + step.Cost*interval(c)/pace(c)
		}
	})
}

// mints runs two callers with different clocks against one key. What is admitted must be
// within the limit by the faster clock, unless that is further ahead than a key takes to recover.
func (s Subject) mints(t *testing.T) {
	for _, l := range Limits() {
		for _, skew := range []int64{1, turnover(l) / 20, turnover(l) / 2, turnover(l)} {
			last := Epoch + 10*turnover(l)
			if admitted := s.admits(l, last, skew); !lawful(l, admitted, Epoch, last+skew) {
				t.Errorf("%v, clocks %d µs apart: %d admitted", l.Config(), skew, admitted)
			}
		}
	}
}

// admits returns how much two callers get until last. The clock of one of them is ahead by skew.
func (s Subject) admits(l *limit.Limit, last, skew int64) (admitted int64) {
	take := s.Fresh()
	for now := Epoch; now <= last; now += turnover(l)/50 + 1 {
		for _, clock := range []int64{now, now + skew, now} {
			granted, _ := take(clock, l, one(1))
			admitted += granted
		}
	}
	return admitted
}

// locks sets the clock back when a key is exhausted. The key must be ready within one window,
// or the time to fill, after its latest instant.
func (s Subject) locks(t *testing.T) {
	for _, l := range hard() {
		latest := Epoch + turnover(l)/3
		for _, back := range []int64{1, turnover(l) / 2} {
			take := s.Fresh()
			take(latest, l, limit.Charge{Cost: 1, N: l.Burst() + 1})
			_, d := take(latest-back, l, one(l.Burst()))
			wait := d.RetryAfter.Microseconds()
			if longest := back + recovery(l); d.Allowed || wait <= back || wait > longest {
				t.Errorf("%v, %d µs back: %+v, want a RetryAfter up to %d µs", l.Config(), back, d, longest)
			}
			if granted, _ := take(latest-back+wait, l, one(l.Burst())); granted != 1 {
				t.Errorf("%v, %d µs back: refused after RetryAfter", l.Config(), back)
			}
		}
	}
}

// recovery returns the time in which an exhausted key recovers, in microseconds.
func recovery(l *limit.Limit) int64 {
	if l.Algorithm() == limit.Sliding {
		return 2 * turnover(l) // until the previous window has no weight either
	}
	return turnover(l)
}

// RunClockStepsBack checks a clock that was far ahead for a while: a key that was exhausted then is refused
// when the clock is back, and admitted after RetryAfter, in the time in which it would have
// recovered anyway. fresh returns keys of an implementation that reads the clock which it is passed.
func RunClockStepsBack(t *testing.T, fresh func() Take) {
	for _, l := range Limits() {
		overshoot, grace := l.Overshoot()
		most := recovery(l) + grace.Microseconds() + overshoot*recovery(l)/l.Burst() + 2
		for _, ahead := range []int64{2*most + 1, 1000 * most} {
			fresh().returns(t, l, ahead, most)
		}
		if a := l.Algorithm(); overshoot == 0 && (a == limit.Token || a == limit.GCRA || a == limit.Leaky) {
			fresh().owes(t, l)
		}
	}
}

// owes turns the clock of a key in debt to and fro: the debt is not regained more than once. Only a
// clock that was further ahead than that takes is not believed.
func (take Take) owes(t *testing.T, l *limit.Limit) {
	debt := 20 * l.Burst()
	owed := int64(float64(debt) / l.Rate() * 1e6)
	now := Epoch + turnover(l)/3
	take(now+owed/2, l, limit.Charge{Cost: debt, N: 1, Debt: l.Debt(100)})
	look := limit.Charge{N: 1, Debt: l.Debt(100)}
	for range 8 {
		take(now, l, look)
		take(now+owed/2, l, look)
	}
	_, d := take(now+owed/2, l, look)
	if wait := d.RetryAfter.Microseconds(); wait < owed-2*turnover(l) {
		t.Errorf("%v, a clock that was %d µs ahead for a while: RetryAfter %v, want at least %d µs", l.Config(), owed/2,
			d.RetryAfter, owed-2*turnover(l))
	}
	take(now+100*owed, l, limit.Charge{Cost: debt, N: 1, Debt: l.Debt(100)})
	if _, d := take(now, l, look); d.Allowed || d.RetryAfter.Microseconds() > owed+turnover(l) {
		t.Errorf("%v, a clock that was far ahead: %+v, want a RetryAfter up to %d µs", l.Config(), d, owed+turnover(l))
	}
}

// returns turns the clock back by ahead. The key must recover within most from the first ask on, not
// from later ones.
func (take Take) returns(t *testing.T, l *limit.Limit, ahead, most int64) {
	overshoot, _ := l.Overshoot()
	now := Epoch + turnover(l)/3
	take(now+ahead, l, limit.Charge{Cost: 1, N: l.Burst() + overshoot + 1})
	until := now + most
	for _, pause := range []int64{0, 1, turnover(l) / 7} {
		now += pause
		granted, d := take(now, l, one(l.Burst()))
		if wait := d.RetryAfter.Microseconds(); granted != 0 || wait <= 0 || now+wait > until {
			t.Fatalf("%v, after the clock was %d µs ahead: %+v, want a RetryAfter up to %d µs", l.Config(), ahead, d, until-now)
		}
	}
	_, d := take(now, l, one(l.Burst()))
	now += d.RetryAfter.Microseconds()
	if granted, d := take(now, l, one(l.Burst())); granted != 1 {
		t.Fatalf("%v, after RetryAfter: %+v", l.Config(), d)
	}
}
