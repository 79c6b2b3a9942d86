package protect

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
)

func TestSpread(t *testing.T) {
	never := -1.0
	some := func(values ...float64) (runs []Run) {
		for i := range values {
			r := Run{Score: Score{P99: values[i], Protected: &values[i]}}
			if values[i] < 0 {
				r.Protected = &never
			}
			runs = append(runs, r)
		}
		return runs
	}
	protected := func(r Run) float64 { return after(r.Protected) }
	for want, runs := range map[string][]Run{
		"2.0 (1.0 … 4.0)":   some(4, 1, 2),
		"1.5 (1.0 … 2.0)":   some(2, 1),
		"4.0 (1.0 … never)": some(-1, 4, 1),
		"2.0":               some(2),
		"never":             some(-1),
		"–":                 {{}},
	} {
		if got := spread(runs, "%.1f", protected); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMissedGoals(t *testing.T) {
	sit := one()
	sit.Goal = Goal{InTime: .98, P99: 120 * ms, Shed: .0001, Behind: .01}
	run := func(side string, inTime, needless int, p99 float64) Run {
		return Run{Scenario: "one", Side: side, Round: 1, Score: Score{Requests: 10_000, InTime: inTime, Ideal: 10_000,
			Needless: needless, P99: p99}}
	}
	good := run("gate", 9850, 0, 0.12)
	for want, runs := range map[string][]Run{
		"": {good, run("haproxy", 9950, 5000, 3), run("none", 0, 0, 3)},
		"one: behind the gate 0.979 of the ideal, the goal is 0.98":          {run("gate", 9790, 0, 0.1)},
		"one: p99 behind the gate 121 ms, the goal is 120ms":                 {run("gate", 9900, 0, 0.121)},
		"one: the gate shed 0.01 % needlessly, the goal is less than 0.01 %": {run("gate", 9900, 1, 0.1)},
		"one: behind the gate 0.985 of the ideal, behind failsafe 0.996":     {good, run("failsafe", 9960, 0, 0.1)},
		"one: behind the gate 0.985 of the ideal, behind haproxy 1.000":      {good, run("haproxy", 10_000, 0, 0.1)},
	} {
		l := &lab{Options: new(Options), runs: runs}
		if got := strings.Join(l.missed(sit), "; "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := (&lab{Options: new(Options)}).missed(sit); got != nil {
		t.Errorf("without a run of the gate: %q", got)
	}
}

// The whole takes no longer than it may, and begins with what the goals name.
func TestSituations(t *testing.T) {
	l := &lab{Options: &Options{Shorter: 1}}
	list := testkit.Must(l.chosen())(t)
	turns, left := l.turns(list)
	if left > 135*time.Minute || len(turns) != 5*(7+4*4)+3*(11*4+1) {
		t.Errorf("%d turns take %v", len(turns), left)
	}
	for i, sit := range list {
		if rounds := map[bool]int{true: 5, false: 3}[i < 5]; sit.Rounds != rounds {
			t.Errorf("%s has %d rounds, want %d", sit.Name, sit.Rounds, rounds)
		}
		if length := sit.Length(); length < 25*s || length > 45*s && sit.Name != "steady" {
			t.Errorf("%s lasts %v", sit.Name, length)
		}
		for _, side := range sit.Sides {
			sideNamed(side) // panics when there is none
		}
	}
	if first, again := turns[0], turns[7+4*4+11*4+1]; first.round != 1 || again.round != 2 || again.s != first.s {
		t.Errorf("rounds do not alternate: %v, %v", first, again)
	}
}

// The bad phases of a ramp are one span, and trials shorten all that lasts.
func TestBadSpanAndShorten(t *testing.T) {
	sit := one()
	sit.Phases = slices.Insert(sit.Phases, 1, Phase{5 * s, 80, 15 * ms, true})
	sit.Dips = TargetSlowdowns{Every: 4 * s, For: s}
	sit.shorten(2)
	if from, to, ok := sit.bad(); from != 5*s || to != 12500*ms || !ok || sit.Length() != 17500*ms {
		t.Errorf("bad from %v to %v of %v", from, to, sit.Length())
	}
	if sit.Dips.Every != 2*s || sit.Dips.For != 500*ms {
		t.Errorf("dips are %+v", sit.Dips)
	}
}

func TestBounds(t *testing.T) {
	a, b, c := one(), one(), one()
	b.Name, b.InTime, c.Name, c.InTime = "wide", 200*ms, "long", s
	for want, list := range map[string][]Scenario{
		"100 ms":                               {*a, *a},
		"200 ms":                               {*b},
		"100 ms (wide: 200 ms, long: 1000 ms)": {*a, *b, *a, *c},
	} {
		if got := bounds(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Who runs before whom changes from round to round, and is the same after a stop.
func TestOrderOfSides(t *testing.T) {
	o := &Options{Only: "half", Rounds: 5, Shorter: 1}
	list := testkit.Must(o.chosen())(t)
	all, _ := (&lab{Options: o}).turns(list)
	before := make(map[string]map[string]bool) // by side, those that ran just before it
	for i, turn := range all[1:] {
		side := turn.sides[0]
		if before[side] == nil {
			before[side] = make(map[string]bool)
		}
		before[side][all[i].sides[0]] = true
	}
	for side, others := range before {
		if len(others) < 3 {
			t.Errorf("in five rounds %s runs only after %v", side, others)
		}
	}
	stopped := &lab{Options: o}
	for _, turn := range all[:10] {
		stopped.runs = append(stopped.runs, Run{Shorter: 1, Scenario: "half", Side: turn.sides[0], Round: turn.round})
	}
	rest, _ := stopped.turns(list)
	same := func(a, b turn) bool { return a.round == b.round && slices.Equal(a.sides, b.sides) }
	if !slices.EqualFunc(rest, all[10:], same) {
		t.Errorf("after a stop the order is %v, was %v", rest, all[10:])
	}
}

func TestChosen(t *testing.T) {
	for only, want := range map[string]string{
		"half,gate": "half: gate",
		"gate, failsafe": "half: gate failsafe; most: gate failsafe; wide: gate failsafe; sheds: gate failsafe; crowd: " +
			"gate failsafe; proxies: gate failsafe; varied: gate failsafe; slow: gate failsafe; restart: gate failsafe; " +
			"redis: gate failsafe; steady: gate; stops: gate failsafe; blips: gate failsafe; mix: gate failsafe; flush: gate " +
			"failsafe; ramp: gate failsafe; retries: gate failsafe",
		"steady":           "steady: none gate",
		"steady,limit":     "",
		"half,steady,none": "half: none; steady: none",
	} {
		list, err := (&Options{Only: only, Shorter: 1}).chosen()
		var got []string
		for _, sit := range list {
			got = append(got, sit.Name+": "+strings.Join(sit.Sides, " "))
		}
		if err != nil || strings.Join(got, "; ") != want {
			t.Errorf("%q: %q, %v", only, got, err)
		}
	}
	var wrong *service.SettingError
	if _, err := (&Options{Only: "half,gait"}).chosen(); !errors.As(err, &wrong) ||
		!strings.Contains(err.Error(), `"gait"; allowed: half, most`) {
		t.Errorf("a wrong word: %v", err)
	}
}

// Runs that were finished are not played again; those of another commit are, and
// a line that was cut off is passed over.
func TestGoesOn(t *testing.T) {
	o := &Options{Dir: t.TempDir(), Only: "half,none,gate", Rounds: 2, Shorter: 1}
	file := filepath.Join(o.Dir, RunsFile)
	l := &lab{Options: o, out: new(result.Report), commit: "c", file: file}
	list := testkit.Must(l.chosen())(t)
	quick := 0.5
	for _, r := range []Run{{Commit: "c", Shorter: 1, Scenario: "half", Side: "none", Round: 1,
		Score: Score{InTime: 7, Protected: &quick}},
		{Commit: "b", Shorter: 1, Scenario: "half", Side: "gate", Round: 1},
		{Commit: "c", Shorter: 2, Scenario: "half", Side: "gate", Round: 1}} {
		l.keep(r)
	}
	text, _ := os.ReadFile(file)
	if err := os.WriteFile(file, append(text, `{"commit":"c","sid`...), 0o600); err != nil {
		t.Fatal(err)
	}
	again := &lab{Options: o, out: new(result.Report), commit: "c", file: file}
	again.resume()
	turns, _ := again.turns(list)
	if len(turns) != 3 || turns[0].sides[0] != "gate" || turns[1].round != 2 {
		t.Errorf("still to be played: %v", turns)
	}
	if r := again.runs[0]; r.InTime != 7 || *r.Protected != 0.5 {
		t.Errorf("a run came back as %+v", r)
	}
	changed := &lab{Options: o, commit: "c+", file: file}
	changed.keep(Run{Commit: "c+", Shorter: 1, Scenario: "half", Side: "gate", Round: 1})
	if changed.resume(); len(changed.runs) != 0 {
		t.Errorf("with changes that are not committed %d runs are taken up", len(changed.runs))
	}
	if none := load(file + ".absent"); none != nil {
		t.Errorf("no file is read as %v", none)
	}
}

// A few seconds with the real programs: every request is accounted for, the
// tables are read back, and the picture is drawn.
func TestPlays(t *testing.T) {
	rigtest.Build(t, "proxy", "target", "loadgen")
	dir := t.TempDir()
	o := &Options{Dir: dir, Only: "varied,restart,flush,retries,none,gate", Rounds: 1, Shorter: 20}
	var record *result.Record
	_, err := rigtest.Run(t, func(l *rig.Lab) {
		record = l.Record(time.Now(), nil)
		o.Run(l, nil)
	})
	if !errors.Is(err, result.ErrNotRecorded) {
		t.Fatal(err)
	}
	runs := load(filepath.Join(dir, RunsFile))
	if len(runs) != 8 {
		t.Fatalf("%d runs", len(runs))
	}
	for _, r := range runs {
		if r.Requests < 100 || r.InTime > r.OK || r.OK+r.Shed > r.Requests || r.Needless > r.Shed || r.OK == 0 ||
			r.Ideal <= 0 || r.Verdict == "" {
			t.Errorf("%+v", r)
		}
	}
	rows := 0
	for _, section := range record.Sections {
		for _, table := range section.Tables {
			if table.Columns[0] == "side" && len(table.Columns) > 2 {
				rows += len(table.Rows)
			}
		}
	}
	// Single runs have no spread, and are no ratios that the next record is held to.
	if rows != 8 || len(record.Ratios()) != 0 || !slices.Equal(record.Files, []string{PlotFile}) {
		t.Errorf("%d rows, ratios %v, files %v", rows, record.Ratios(), record.Files)
	}
}
