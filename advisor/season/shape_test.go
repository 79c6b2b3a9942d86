package season

import (
	"math"
	"testing"
	"time"
)

// TestLocalClock fits weeks before the clocks change and looks at the day after:
// people come at eight by their own clock.
func TestLocalClock(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	local := func(at time.Time) float64 {
		l := at.In(berlin)
		return math.Exp(3 + math.Sin(2*math.Pi*(float64(l.Hour())+float64(l.Minute())/60)/24))
	}
	rows := rowsOf(27*288, 5*time.Minute, local) // until 2026-03-29 0:00 UTC, an hour before the change
	after := begin.Add(28 * oneDay)
	own := off(mustFit(t, rows, nil, Settings{Location: berlin}), local, after, 288, 5*time.Minute)
	utc := off(mustFit(t, rows, nil, Settings{}), local, after, 288, 5*time.Minute)
	if own > .02 || utc < .1 {
		t.Errorf("the day after the change: off by %.3f by the local clock, must be at most 0.02; by UTC %.3f, must be at least 0.1", own, utc)
	}
}

// TestEvents teaches two matches and announces a third, and one of another name.
func TestEvents(t *testing.T) {
	match := func(name string, hours int) Event {
		start := begin.Add(time.Duration(hours) * time.Hour)
		return Event{Name: name, Start: start, End: start.Add(2 * time.Hour), Ramp: 30 * time.Minute}
	}
	events := []Event{match("match", 14*24+20), match("match", 16*24+20), match("match", 21*24+20), match("parade", 22*24+20)}
	c, _, err := newCalendar(events)
	if err != nil {
		t.Fatal(err)
	}
	rate := func(at time.Time) float64 {
		z := math.Log(busy(at))
		c.each(seconds(at)-150, func(name int, v float64) {
			if name == 0 {
				z += 1.5 * v
			}
		})
		return math.Exp(z)
	}
	m := mustFit(t, rowsOf(20*288, 5*time.Minute, noisy(rate, .1)), nil, Settings{Events: events})
	for _, w := range []struct {
		what  string
		hours float64
		want  float64
	}{
		{"in the middle of a coming match", 21*24 + 21, 1.5},
		{"half up its ramp", 21*24 + 19.75, .75},
		{"half down its ramp", 21*24 + 22.25, .75},
		{"an hour after it", 21*24 + 23.5, 0},
		{"in an event of a name not seen", 22*24 + 21, 0},
	} {
		at := begin.Add(time.Duration(w.hours*3600)*time.Second + 150*time.Second)
		if got := m.Parts(at).Events; math.Abs(got-w.want) > .2 {
			t.Errorf("%s: %.3f, must be about %.3f", w.what, got, w.want)
		}
	}
}

func TestLevelShift(t *testing.T) {
	at := begin.Add(12 * oneDay)
	rate := func(t time.Time) float64 {
		if t.Before(at) {
			return busy(t)
		}
		return 3 * busy(t)
	}
	rows := rowsOf(12*288+24, 5*time.Minute, noisy(rate, .1)) // two hours after it
	next := rows[len(rows)-1].At
	with := off(mustFit(t, rows, []time.Time{at}, Settings{}), rate, next, 12, 5*time.Minute)
	without := off(mustFit(t, rows, nil, Settings{}), rate, next, 12, 5*time.Minute)
	if with > .15 || without < .3 {
		t.Errorf("an hour on: off by %.3f knowing the shift, must be at most 0.15; not knowing it %.3f, must be at least 0.3", with, without)
	}
	same := mustFit(t, rows, []time.Time{begin.Add(-oneDay), next.Add(oneDay)}, Settings{})
	if d := same.At(next) - mustFit(t, rows, nil, Settings{}).At(next); d != 0 {
		t.Errorf("shifts without rows on both sides change the model by %g", d)
	}
}

func TestOnlyTheLastShiftsCount(t *testing.T) {
	m := &Model{first: seconds(begin), span: (20 * oneDay).Seconds()}
	var shifts []time.Time
	for i := range shiftsMax + 3 {
		shifts = append(shifts, begin.Add(time.Duration(i+1)*oneDay))
	}
	if got := within(shifts, m); len(got) != shiftsMax || math.Abs(got[0]-4./20) > 1e-12 {
		t.Errorf("of shifts on days 1 to 8 within 20 days %v count, must be those of days 4 to 8", got)
	}
}

// TestTrendIsDamped follows growth beyond the rows: it goes on, ever slower.
func TestTrendIsDamped(t *testing.T) {
	rate := func(t time.Time) float64 { return 10 * math.Exp(t.Sub(begin).Hours()/48) }
	m := mustFit(t, rowsOf(10*288, 5*time.Minute, rate), nil, Settings{})
	at, step := m.Newest(), m.Parts(m.Newest()).Trend-m.Parts(m.Newest().Add(-5*time.Minute)).Trend
	if math.Abs(step-5./60/48) > 2e-4 {
		t.Errorf("the trend grows %.5f a slot at the end of the rows, must be %.5f", step, 5./60/48)
	}
	last := m.Parts(at).Trend
	for i := range 200 {
		at = at.Add(5 * time.Minute)
		now := m.Parts(at).Trend
		if grown := now - last; grown > step*1.0001 || grown < 0 {
			t.Fatalf("slot %d after the rows: the trend grows %g after %g", i, grown, step)
		} else {
			step, last = grown, now
		}
	}
	if never := m.Parts(at.Add(99 * oneDay)).Trend; never-last > 50*step {
		t.Errorf("the trend still grows by %g", never-last)
	}
}

func TestBlocksBySpan(t *testing.T) {
	hours := func(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }
	for _, c := range []struct {
		span, step time.Duration
		want       blocks
	}{
		{hours(5.9), 5 * time.Minute, blocks{}},
		{hours(6), 5 * time.Minute, blocks{Hour: 3}},
		{hours(47.9), 5 * time.Minute, blocks{Hour: 3}},
		{hours(48), 5 * time.Minute, blocks{Hour: 3, Day: 4}},
		{7 * oneDay, 5 * time.Minute, blocks{Hour: 3, Day: 10}},
		{7 * oneDay, 30 * time.Minute, blocks{Day: 10}},
		{7 * oneDay, 2 * time.Hour, blocks{Day: 5}},
		{9 * oneDay, time.Hour, blocks{Day: 10, Week: 6}},
		{12 * oneDay, time.Hour, blocks{Day: 10, Week: 6, Weekend: 4}},
		{14 * oneDay, time.Hour, blocks{Day: 11, Week: 6, Weekend: 4}},
		{21 * oneDay, 30 * time.Minute, blocks{Day: 20, Week: 6, Weekend: 8}},
		{2 * 366 * oneDay, 3 * time.Hour, blocks{Day: 3, Week: 6, Weekend: 3, Year: 6}},
	} {
		rows := rowsOf(int(c.span/c.step), c.step, busy)
		got := mustFit(t, rows, nil, Settings{}).blocks
		if got != c.want {
			t.Errorf("%s of rows every %s: harmonics %+v, must be %+v", c.span, c.step, got, c.want)
		}
	}
	rows := rowsOf(40*288, 5*time.Minute, busy)
	rows = append(rows[:300:300], rows[len(rows)-300:]...)
	if got := mustFit(t, rows, nil, Settings{}).blocks; got != (blocks{Hour: 3, Day: 4}) {
		t.Errorf("two days of rows with five weeks between them: harmonics %+v, must be those of two days", got)
	}
}

// TestYear fits three years of hours and looks half a year ahead.
func TestYear(t *testing.T) {
	rate := func(t time.Time) float64 { return busy(t) * math.Exp(math.Cos(2*math.Pi*seconds(t)/year)) }
	m := mustFit(t, rowsOf(3*366*8, 3*time.Hour, noisy(rate, .1)), nil, Settings{})
	if got := off(m, rate, m.Newest(), 180*8, 3*time.Hour); got > .15 {
		t.Errorf("half a year ahead off by %.3f, must be at most 0.15", got)
	}
}
