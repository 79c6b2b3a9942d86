package core

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"strings"
	"testing"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/series"
	"weir/internal/test/testkit"
)

// A damaged part affects only that part.
func TestPartsAreReadOneByOne(t *testing.T) {
	a := New(Settings{})
	feed(t, a, monday, monday.Add(2*time.Hour), time.Minute)
	parts := testkit.Must(a.Parts())(t)
	for _, c := range []struct{ part, want string }{
		{partForecast, "the part forecast cannot be read, learning it again from 120 rates: read forecaster"},
		{partPolicy, "the part policy cannot be read, starting without it: "},
		{partTrack, "the part track cannot be read, starting without it: "},
		{partRest, "the part rest cannot be read, starting without it: "},
	} {
		t.Run(c.part, func(t *testing.T) {
			damaged := maps.Clone(parts)
			damaged[c.part] = []byte("other")
			b, partErrors := Restore(Settings{}, damaged)
			if len(partErrors) != 1 || !strings.HasPrefix(partErrors[0].Error(), c.want) {
				t.Errorf("told %v", partErrors)
			}
			m := b.now
			if m.Rounds != 120 || !m.newest().Equal(monday.Add(2*time.Hour)) {
				t.Errorf("%d rounds up to %s are known", m.Rounds, m.newest())
			}
			got, covered := m.future.History().Mean(series.Minute, float64(monday.Unix()+3600), float64(monday.Unix()+5400))
			testkit.Tolerance(0.02).Near(t, "the rate in the second hour", got, day(monday.Add(75*time.Minute)))
			if covered < 0.99 || len(m.future.Outlook(time.Hour, time.Minute)) != 60 {
				t.Errorf("%g of the history is known", covered)
			}
			if n := len(m.track.minutes.points); (n == 0) != (c.part == partTrack) {
				t.Errorf("%d minutes of the track are known", n)
			}
			feed(t, b, monday.Add(2*time.Hour), monday.Add(123*time.Minute), time.Minute)
		})
	}
}

// Without its rates the forecast begins afresh, too: it goes on from them.
func TestWithoutHistory(t *testing.T) {
	a := New(Settings{})
	feed(t, a, monday, monday.Add(2*time.Hour), time.Minute)
	parts := testkit.Must(a.Parts())(t)
	parts[partHistory] = []byte("other")
	b, partErrors := Restore(Settings{}, parts)
	if len(partErrors) != 1 || !strings.HasPrefix(partErrors[0].Error(),
		"the part history cannot be read, starting without it, and without a forecast: ") {
		t.Errorf("told %v", partErrors)
	}
	if age, _ := b.HistoryAge(); age != 0 || b.now.Rounds != 120 {
		t.Errorf("%s of history and %d rounds are left", age, b.now.Rounds)
	}
	feed(t, b, monday.Add(2*time.Hour), monday.Add(123*time.Minute), time.Minute)
}

// Of what another version of the forecast wrote the rates are known.
func TestForecastOfAnotherVersion(t *testing.T) {
	a := New(Settings{})
	feed(t, a, monday, monday.Add(2*time.Hour), time.Minute)
	parts := testkit.Must(a.Parts())(t)
	other := parts[partForecast]
	other[len("weir forecast")]--
	body := other[:len(other)-4]
	binary.LittleEndian.PutUint32(other[len(body):], crc32.ChecksumIEEE(body))
	b, partErrors := Restore(Settings{}, parts)
	if len(partErrors) != 1 ||
		!strings.Contains(partErrors[0].Error(), "learning it again from 120 rates: read forecaster: version") {
		t.Errorf("told %v", partErrors)
	}
	if age, _ := b.HistoryAge(); age < 2*time.Hour-time.Minute {
		t.Errorf("%s of history are left", age)
	}
}

// In another time zone days and weeks are learned again.
func TestZoneIsKept(t *testing.T) {
	a := New(Settings{})
	feed(t, a, monday, monday.Add(40*time.Hour), 30*time.Minute)
	parts := testkit.Must(a.Parts())(t)
	zone := testkit.Must(time.LoadLocation("Asia/Tokyo"))(t)
	b, partErrors := Restore(Settings{Forecast: forecast.Settings{Location: zone}}, parts)
	if len(partErrors) != 1 ||
		!strings.Contains(partErrors[0].Error(), "it was learned in the time zone UTC, now it is Asia/Tokyo") {
		t.Errorf("told %v", partErrors)
	}
	if age, _ := b.HistoryAge(); age < 39*time.Hour {
		t.Errorf("%s of history are left", age)
	}
	again(t, b)
}

// The same snapshots lead to the same state, and a restored core has the same.
func TestDeterministic(t *testing.T) {
	a, b := New(Settings{}), New(Settings{})
	for i := range 300 {
		s := snapAt(monday.Add(time.Duration(i) * 30 * time.Second))
		s.Instance = []string{"x", "y"}[i%2]
		s.Limit.Algorithm = []string{"fixed", "off"}[i/200] // a limiter that is off can be encoded, too
		a.HandleSnapshot(s)
		if err := b.Replay(s); err != nil {
			t.Fatal(err)
		}
	}
	c := again(t, a)
	same, restored := testkit.Must(b.Parts())(t), testkit.Must(c.Parts())(t)
	for name, data := range testkit.Must(a.Parts())(t) {
		if string(data) != string(same[name]) {
			t.Errorf("the same snapshots taught two cores different things about %s", name)
		}
		if string(data) != string(restored[name]) {
			t.Errorf("%s is another one after it was restored", name)
		}
	}
	next := snapAt(monday.Add(301 * 30 * time.Second))
	next.Instance = "y"
	if want, got := testkit.JSON(a.HandleSnapshot(next)), testkit.JSON(c.HandleSnapshot(next)); want != got {
		t.Errorf("the restored core answers\n%s, not\n%s", got, want)
	}
}

func FuzzRestore(f *testing.F) {
	parts := testkit.Must(New(Settings{}).Parts())(f)
	for name, data := range parts {
		f.Add(name, data)
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		c, _ := Restore(Settings{}, map[string][]byte{name: data})
		c.View()
	})
}
