package advisor

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/bench/forecast/backtest"
	"weir/bench/forecast/closedloop"
	"weir/bench/lab/rig"
)

func TestSizeOf(t *testing.T) {
	for _, test := range []struct {
		args  []string
		name  string // empty: an error
		words int
	}{{nil, "quick", 0}, {[]string{"quick"}, "quick", 0}, {[]string{"all", "taxi", "drift"}, "all", 2},
		{[]string{"some"}, "", 0}} {
		var z size
		var words []string
		err := rig.Catch(func() { z, words = sizeOf(test.args) })
		if z.name != test.name || len(words) != test.words || (err != nil) != (test.name == "") {
			t.Errorf("%q: %q, %q, %v", test.args, z.name, words, err)
		}
	}
}

// Every trace is combined with every event, and every value of the other parameters occurs.
func TestMatrix(t *testing.T) {
	all := synthetic()
	z := sizes[1]
	seen := make(map[string]int)
	for _, s := range z.matrix(all) {
		seen[s.Trace+"/"+s.Event]++
		for _, part := range strings.Split(s.Name, ", ")[2:6] {
			seen[part]++
		}
		if peak := s.Demand.Peak() / s.Target.Capacity(0); !slices.ContainsFunc(peaks[:],
			func(p float64) bool { return math.Abs(p-peak) < 1e-6 }) {
			t.Errorf("%s: the peak is %.3f of the capacity", s.Name, peak)
		}
	}
	for _, tr := range all {
		for _, e := range events {
			if seen[tr.Name+"/"+e.name] == 0 {
				t.Errorf("%s never meets %s", tr.Name, e.name)
			}
		}
	}
	for _, part := range []string{"peak 0.7 C", "peak 1.2 C", "peak 2.0 C", "peak 5.0 C", "8 workers", "64 workers",
		"retry 0.0", "retry 0.5", "30s", "1m0s"} {
		if seen[part] == 0 {
			t.Errorf("no scenario with %s among %v", part, seen)
		}
	}
}

func TestWanted(t *testing.T) {
	all := []*closedloop.Scenario{{Name: "taxi, drift"}, {Name: "taxi, known"}, {Name: "noisy, drift"}}
	for want, words := range map[int][]string{3: nil, 2: {"taxi"}, 1: {"taxi", "drift"}, 0: {"walk"}} {
		if got := wanted(all, words); len(got) != want {
			t.Errorf("%q: %d scenarios, want %d", words, len(got), want)
		}
	}
}

// Stages ascend, begin with the initial capacity, and end with it if the event is over by then.
func TestEvents(t *testing.T) {
	for _, e := range events {
		stages := e.stages(3600)
		for i, s := range stages {
			if i == 0 && (s.From != 0 || s.Factor != 1) || i > 0 && s.From <= stages[i-1].From || s.From >= 3600 {
				t.Errorf("%s: stage %d is %+v", e.name, i, s)
			}
		}
		if n := len(stages); n > 0 && e.name != "+100 %" && math.Abs(stages[n-1].Factor-1) > 1e-9 {
			t.Errorf("%s ends at %.3f of the capacity", e.name, stages[n-1].Factor)
		}
	}
	least := 1.0
	for _, s := range drift(7200) {
		least = min(least, s.Factor)
	}
	if math.Abs(least-math.Pow(0.99, 30)) > 1e-9 {
		t.Errorf("15 minutes of 2 %% a minute end at %.3f", least)
	}
}

func TestReadCounts(t *testing.T) {
	tr, err := readText(t, source{read: backtest.ParseCounts, step: time.Minute},
		"minute,count\n2026-01-05 00:00:00,60\n2026-01-05 00:01:00,120\n2026-01-05 00:03:00,30\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := bridged(tr.Rates); !slices.Equal(got, []float64{1, 2, 1.25, 0.5}) || !math.IsNaN(tr.Rates[2]) {
		t.Errorf("read %v, bridged %v", tr.Rates, got)
	}
	tr.from, tr.span = tr.Start, 4*time.Minute
	if d := tr.demand(2 * time.Minute); len(d.Rates) != 2 || !d.Start.Equal(tr.Start.Add(time.Minute)) {
		t.Errorf("the middle is %+v", d)
	}
	past := tr.history(tr.Start.Add(3*time.Minute), time.Hour)
	if len(past) != 2 || past[1].Rate != 2 || !past[1].At.Equal(tr.Start.Add(2*time.Minute)) {
		t.Errorf("history %+v", past)
	}
	if _, err := readText(t, source{read: backtest.ParseCounts, step: time.Minute},
		"minute,count\n2026-01-05 00:00:00,many\n"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a count that is none: %v", err)
	}
}

// readText reads a source with the given text.
func readText(t *testing.T, s source, text string) (tr *trace, err error) {
	t.Helper()
	dir := t.TempDir()
	s.file = "x.csv"
	if err := os.WriteFile(filepath.Join(dir, s.file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err = rig.Catch(func() { tr = s.trace(dir) })
	return tr, err
}

func TestReadOthers(t *testing.T) {
	for name, c := range map[string]struct {
		s    source
		text string
		want []float64
	}{
		"requests": {source{read: readRequests, step: 100 * time.Millisecond},
			"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 " +
				"18:15:46.7905900,3,4\n2023-11-16 18:15:47.0,1,1\n", []float64{0, 0, 0, 0, 0, 0, 10, 10, 0, 0, 10}},
		"seconds": {source{read: backtest.ParseCounts, step: time.Second, start: "2026-01-05 00:00:00"},
			"second_of_day,count\n0,3\n1,5\n", []float64{3, 5}},
		"rates": {source{read: backtest.ParseRates, step: time.Second, start: "2026-01-05 00:00:00"}, "7\n8\n",
			[]float64{7, 8}},
	} {
		tr, err := readText(t, c.s, c.text)
		if err != nil || !slices.Equal(tr.Rates, c.want) || c.s.start != "" &&
			!tr.Start.Equal(time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: %+v, %v", name, tr, err)
		}
	}
}

// Without recorded traces the same traffic is generated every time.
func TestWithoutTraces(t *testing.T) {
	all, madeUp := traces(filepath.Join(t.TempDir(), "none"))
	if !madeUp || len(all) != 4 {
		t.Fatalf("%d traces, made up %v", len(all), madeUp)
	}
	again := synthetic()
	for i, tr := range all {
		if !slices.Equal(tr.Rates, again[i].Rates) {
			t.Errorf("%s differs from time to time", tr.Name)
		}
		if slices.Min(tr.Rates) <= 0 || len(tr.history(tr.from, 9*24*time.Hour)) != 9*24*60 {
			t.Errorf("%s: rates down to %v, %d slots of history", tr.Name, slices.Min(tr.Rates),
				len(tr.history(tr.from, 9*24*time.Hour)))
		}
	}
}
