package serve

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/advisor/series"
	"weir/advisor/state"
)

// respoil gives the state file at path other parts.
func respoil(t *testing.T, path string, spoil func(p *state.Part)) {
	t.Helper()
	store, found, err := state.Open(time.Now(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i := range found.Image.Parts {
		spoil(&found.Image.Parts[i])
	}
	if err := store.Save(*found.Image); err != nil {
		t.Fatal(err)
	}
}

// A part that cannot be read costs that part, and a line.
func TestPartsAreReadOneByOne(t *testing.T) {
	for _, c := range []struct{ part, want string }{
		{partForecast, "the part forecast cannot be read, it is learned again from 120 rates: read forecaster"},
		{partHistory, ""},
		{partPolicy, "the part policy cannot be read, it begins afresh: "},
		{partTrack, "the part track cannot be read, it begins afresh: "},
		{partRest, "the part rest cannot be read, it begins afresh: "},
	} {
		t.Run(c.part, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			a := start(t, kept(path))
			feed(t, a.core, monday, monday.Add(2*time.Hour), time.Minute)
			a.stop()
			respoil(t, path, func(p *state.Part) {
				if p.Name == c.part {
					p.Data = []byte("other")
				}
			})
			b := start(t, kept(path))
			log := b.log.String()
			if c.want != "" && (!strings.Contains(log, "level=WARN") || !strings.Contains(log, c.want) || !strings.Contains(log, "all of it is kept as "+path+".corrupt-")) {
				t.Errorf("the log is\n%s", log)
			}
			if c.want == "" && strings.Contains(log, "WARN") {
				t.Errorf("the log is\n%s", log)
			}
			m := b.core.now
			if m.rounds != 120 || !m.newest().Equal(monday.Add(2*time.Hour)) {
				t.Errorf("%d rounds up to %s are known", m.rounds, m.newest())
			}
			got, covered := m.future.History().Mean(series.Minute, monday.Add(time.Hour), monday.Add(90*time.Minute))
			near(t, "the rate in the second hour", got, day(monday.Add(75*time.Minute)), 0.02)
			if covered < 0.99 || len(m.future.Outlook(time.Hour, time.Minute)) != 60 {
				t.Errorf("%g of the history is known", covered)
			}
			if n := len(m.track.minutes.marks); (n == 0) != (c.part == partTrack) {
				t.Errorf("%d minutes of the track are known", n)
			}
			feed(t, b.core, monday.Add(2*time.Hour), monday.Add(123*time.Minute), time.Minute)
		})
	}
}

// In another time zone the days and weeks are learned again.
func TestZoneIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	cfg := kept(path)
	a := start(t, cfg)
	feed(t, a.core, monday, monday.Add(40*time.Hour), 30*time.Minute)
	a.stop()
	zone, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Zone = zone
	b := start(t, cfg)
	if log := b.log.String(); !strings.Contains(log, "it was learned in the time zone UTC, now it is Asia/Tokyo") {
		t.Errorf("the log is\n%s", log)
	}
	if age := b.core.now.future.History().Age(); age < 39*time.Hour {
		t.Errorf("%s of history are left", age)
	}
	b.stop()
	c := start(t, cfg)
	if log := c.log.String(); strings.Contains(log, "WARN") {
		t.Errorf("the next time the log is\n%s", log)
	}
}

func TestRows(t *testing.T) {
	rows := []series.Row{{At: monday, Interval: time.Minute, Rate: 7.5, Coverage: 1}, {At: monday.Add(time.Hour), Interval: time.Second, Rate: math.Pi, Coverage: 0.5}}
	data := encodeRows("Europe/Berlin", rows)
	zone, again, err := decodeRows(data)
	if err != nil || zone != "Europe/Berlin" || len(again) != 2 || !again[1].At.Equal(rows[1].At) || again[1].Rate != math.Pi || again[0].Interval != time.Minute || again[1].Coverage != 0.5 {
		t.Errorf("%s %+v, %v", zone, again, err)
	}
	for _, bad := range [][]byte{nil, {1}, {2, 0}, {1, 5, 'x'}, data[:len(data)-1]} {
		if _, _, err := decodeRows(bad); !errors.Is(err, errRows) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzDecodeRows(f *testing.F) {
	f.Add(encodeRows("UTC", []series.Row{{At: monday, Interval: time.Minute, Rate: 7.5, Coverage: 1}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, rows, err := decodeRows(data); err == nil {
			newMemory(newTestCore().tuning).rebuild(newTestCore().tuning, rows[:min(len(rows), 100)])
		}
	})
}
