package forecast

import (
	"math"
	"testing"
	"time"

	"weir/advisor/series"
)

var seasonNames = [seasonsN]string{"yesterday", "last_week", "day", "week", "course", "minute_of_day", "minute_of_hour"}

// A day begins at local midnight: after a change to daylight saving time, yesterday and the
// profile refer to the same local time.
func TestCalendarFollowsTheWallClock(t *testing.T) {
	place := time.FixedZone("", 0)
	if l, err := time.LoadLocation("Europe/Berlin"); err == nil {
		place = l
	}
	h := series.New()
	k := newCalendar(Settings{Location: place}, h)
	rate := func(at time.Time) float64 { // by the local hour at the middle of the slot
		return 10 + float64(at.Add(-5*time.Minute).In(place).Hour())
	}
	at := time.Date(2026, 3, 25, 0, 0, 0, 0, time.UTC) // the clocks change on the 29th
	for at.Before(time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)) {
		at = at.Add(10 * time.Minute)
		if !h.Add(at, 10*time.Minute, rate(at)) {
			t.Fatal("a rate is refused")
		}
		k.learn(seconds(at), 600, math.Log(rate(at)+1))
	}
	var s [seasonsN]float64
	k.fill(&s, seconds(at), 600, 1)
	want := math.Log(rate(at) + 1)
	for _, j := range [...]int{seasonYesterday, seasonDay} {
		if math.Abs(s[j]-want) > .02 {
			t.Errorf("%s at noon after the change: %g, want %g", seasonNames[j], s[j], want)
		}
	}
	if s[seasonLastWeek] == s[seasonLastWeek] {
		t.Errorf("last week is known after four days: %v", s)
	}
}

// Seasons are known once there is enough history, those by the minute only with short slots.
func TestSeasonsBegin(t *testing.T) {
	h := series.New()
	k := newCalendar(Settings{}, h)
	at := epoch
	known := func() (list string) {
		var s [seasonsN]float64
		k.fill(&s, seconds(at)+3600, 60, 1)
		for j, z := range s {
			if z == z {
				list += seasonNames[j] + " "
			}
		}
		return list
	}
	for _, c := range []struct {
		until time.Duration
		want  string
	}{
		{2 * time.Hour, "minute_of_hour "},
		{25 * time.Hour, "yesterday day minute_of_day minute_of_hour "},
		{40 * time.Hour, "yesterday day course minute_of_day minute_of_hour "},
		{8 * 24 * time.Hour, "yesterday last_week day week course minute_of_day minute_of_hour "},
	} {
		for at.Before(epoch.Add(c.until)) {
			at = at.Add(time.Minute)
			h.Add(at, time.Minute, 5)
			k.learn(seconds(at), 60, 2)
		}
		if got := known(); got != c.want {
			t.Errorf("after %s: %q, want %q", c.until, got, c.want)
		}
	}
}

// A spike every three hours is also forecast between the learned horizons.
func TestSpikeBetweenHorizons(t *testing.T) {
	f := New(Settings{})
	feed(f, epoch, 2*time.Minute, 1460, func(i int) float64 {
		if i%90 == 38 {
			return 200
		}
		return 50 + float64(i%3)
	})
	p := f.Outlook(time.Hour, 2*time.Minute) // the first point is slot 1460 = 16·90 + 20
	if q := p[18].Q50; q < 120 {
		t.Errorf("the spike in 38 minutes is forecast as %g, it will be 200", q)
	}
	if q := p[22].Q50; q > 80 {
		t.Errorf("in 46 minutes, after the spike, %g is forecast, it will be 50", q)
	}
}

// A schedule within the hour is also learned with slots of five minutes.
func TestSpikeInFiveMinutes(t *testing.T) {
	f := New(Settings{})
	feed(f, epoch, 5*minute, 4*288, func(i int) float64 {
		if i%6 == 0 {
			return 200 + float64(i%7)
		}
		return 50 + float64(i%5)
	})
	if q := median(f, 5*minute); math.Abs(q-200) > 20 { // of slot 6·192
		t.Errorf("the spike in five minutes is forecast as %g, it will be 200", q)
	}
}

// The rate a day ago is averaged over the same slot and equally many before and after it.
func TestOwnWidth(t *testing.T) {
	for _, c := range []struct{ dt, want float64 }{{1, 899}, {60, 900}, {300, 900}, {400, 400}, {600, 600}, {900, 900},
		{3600, 3600}} {
		if got := ownWidth(c.dt); got != c.want {
			t.Errorf("slots of %gs: %gs, want %gs", c.dt, got, c.want)
		}
	}
}

// Steps between slots of ten minutes are forecast after a day.
func TestStepsInTenMinutes(t *testing.T) {
	f := New(Settings{})
	rate := func(i int) float64 { return 20 + 30*float64(i%144*7%5) + float64(i%3) }
	feed(f, epoch, 10*minute, 3*144+50, rate)
	for i := range 3 {
		if got, want := median(f, time.Duration(i+1)*10*minute), rate(3*144+50+i); math.Abs(got-want) > 10 {
			t.Errorf("%d slots ahead %g is forecast, it will be %g", i+1, got, want)
		}
	}
}
