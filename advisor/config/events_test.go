package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/advisor/forecast"
	"weir/internal/data/strict"
	"weir/internal/test/testkit"
)

func berlin(t *testing.T) *time.Location {
	t.Helper()
	return testkit.Must(time.LoadLocation("Europe/Berlin"))(t)
}

func TestParseEvents(t *testing.T) {
	for _, text := range []string{
		"- name: sale\n  start: 2026-07-01T08:00:00+02:00\n  end: 2026-07-01 20:00\n  ramp: 30m\n",
		"- {name: sale, start: 2026-07-01T06:00:00Z, end: '2026-07-01T20:00', ramp: 1800s}",
		`[{"name":"sale","start":"2026-07-01 08:00:00","end":"2026-07-01T18:00:00Z","ramp":"0h30m"}]`,
		"---\n# a comment\n- ramp: 30m\n  end: 2026-07-01 20:00\n  start: 2026-07-01 08:00\n  name: sale\n",
	} {
		events, err := ParseEvents([]byte(text), berlin(t))
		if err != nil || len(events) != 1 {
			t.Errorf("%s: %v, %v", text, events, err)
			continue
		}
		e := events[0]
		if got := fmt.Sprint(e.Name, e.Start.UTC(), e.End.UTC(),
			e.Ramp); got != "sale2026-07-01 06:00:00 +0000 UTC 2026-07-01 18:00:00 +0000 UTC 30m0s" {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, text := range []string{"", "[]", "# nothing yet\n", "---\n"} {
		if events, err := ParseEvents([]byte(text), time.UTC); err != nil || len(events) != 0 {
			t.Errorf("%q: %v, %v", text, events, err)
		}
	}
	if events, err := ParseEvents([]byte("- {name: day, start: 2026-07-01, end: 2026-07-02, ramp: 0}"),
		berlin(t)); err != nil || events[0].End.Sub(events[0].Start) != 24*time.Hour {
		t.Errorf("a day: %v, %v", events, err)
	}
}

func TestWrongEvents(t *testing.T) {
	const times = "start: 2026-07-01 08:00, end: 2026-07-01 09:00"
	names := ""
	for i := range forecast.EventNamesMax + 1 {
		names += fmt.Sprintf("- {name: n%d, %s}\n", i, times)
	}
	for _, c := range []struct{ text, want string }{
		{"name: sale", "must be one list of {name, start, end, ramp}, is an object"},
		{"null", "must be one list of {name, start, end, ramp}, is null"},
		{"- {name: a, ramp: '', " + times + "}", "[0].ramp: must not be empty"},
		{"- sale\n- sale2", `line 1: [0]: must be an object, is "sale"; line 2: [1]: must be`},
		{"- name: sale\n  start: 2026-07-01\n", "line 1: [0].end: is missing"},
		{"- {" + times + "}", "line 1: [0].name: is missing"},
		{"- {name: , " + times + "}", "line 1: [0].name: must be a string, is null"},
		{"- name: sale\n  begin: 1\n  start: 2026-07-01\n  end: 2026-07-02",
			"line 2: [0].begin: unknown field; allowed: name, start, end, ramp"},
		{"- {name: a, " + times + "}\n- name: b\n  start: 2026-07-02\n  end: 2026-07-01\n",
			"line 4: [1].end: must be after start"},
		{"- name: b\n  name: c\n  start: 2026-07-02\n  end: 2026-07-03\n", "line 2: [0].name: given twice"},
		{"- {name: a, ramp: -3m, " + times + "}", `[0].ramp: must be a duration such as 30m, at most 168h, is "-3m"`},
		{"- {name: a, ramp: 30, " + times + "}", `[0].ramp: must be a duration such as 30m, at most 168h, is "30"`},
		{"- {name: a, start: 27.11.2026, end: 2026-07-01}",
			`[0].start: must be a time such as 2026-11-27T08:00:00+01:00 or 2026-11-27 08:00, is "27.11.2026"`},
		{"- {name: a, start: [1], end: 2026-07-01}", `[0].start: must be a string, is a list`},
		{"- name: [\n", "line 2: not valid YAML"},
		{"- {name: " + strings.Repeat("x", nameBytesMax+1) + ", " + times + "}", "[0].name: is longer than 100 bytes"},
		{strings.Repeat("[", 1000), "line 1: nested deeper than 32 levels"},
		{strings.Repeat("- ", 1000) + "x", "nested deeper than 32 levels"},
		{strings.Repeat("- x\n", eventsMax+1), "there are 1001 events, at most 1000 are allowed"},
		{names, `line 17: [16].name: "n16" is one name too many: at most 16 are supported`},
		{strings.Repeat("#", eventsBytesMax+1), "must be at most 1048576 bytes"},
		{"- {name: a}\n---\n- {name: b}", "must be one YAML document"},
	} {
		_, err := ParseEvents([]byte(c.text), time.UTC)
		if _, ok := errors.AsType[strict.Faults](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q: %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzParseEvents(f *testing.F) {
	f.Add([]byte("- {name: sale, start: 2026-07-01T06:00:00Z, end: '2026-07-01T20:00', ramp: 1800s}"))
	f.Add([]byte("- name: a\n  start: 2026-07-01\n  end: 2026-07-02\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := ParseEvents(data, time.UTC)
		for _, e := range events {
			if err != nil || e.Name == "" || !e.End.After(e.Start) || e.Ramp < 0 {
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
}
