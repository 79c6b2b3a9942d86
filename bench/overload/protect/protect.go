package protect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/program/service"
	"weir/loadgen/record"
)

// Options are the settings of the experiment.
type Options struct {
	Dir     string // for the recorded runs and the plot
	Rounds  int    // 0 for the number of each scenario
	Only    string // names of scenarios and sides; empty for all
	Shorter float64
}

// Register adds the settings to s. When s has been parsed, o holds them.
func (o *Options) Register(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "ROUNDS", Default: "0", Value: service.Int(&o.Rounds, 0, 100),
			Help: "with protect: rounds; 0: five for the first five situations, three for the others"},
		{Name: "ONLY", Value: service.String(&o.Only), Help: "with protect: situations and sides, comma separated; empty: all"},
		{Name: "SHORTER", Default: "1", Value: service.Float(&o.Shorter, 1, 30),
			Help: "with protect: factor by which phases are shorter, for trials"},
	})
}

// A Run is a finished run.
type Run struct {
	Commit   string          `json:"commit"`
	Shorter  float64         `json:"shorter"`
	Scenario string          `json:"situation"`
	Side     string          `json:"side"`
	Round    int             `json:"round"`
	Verdict  record.Validity `json:"verdict"`
	Reasons  []string        `json:"reasons,omitempty"` // of the verdict
	Ended    time.Time       `json:"ended"`
	Score
}

// RunsFile is the file of recorded runs, one per line.
const RunsFile = "protect.runs"

// tries bounds how often a run is played if the load generator could not keep its schedule, or a
// program failed.
const tries = 2

// setUpTime is an estimate of the time that a run takes in addition to its length.
const setUpTime = 1500 * time.Millisecond

// Run plays the runs of this commit that are not recorded yet, prints the tables and draws the
// plot. If ctx ends it, the next call resumes.
func (o *Options) Run(of *rig.Lab, args []string) {
	if len(args) > 0 {
		rig.UsageError("protect takes no argument %q; use -rounds and -only", args)
	}
	l := &lab{Options: o, out: of.Report, tools: of.Dir, commit: result.Commit(), file: filepath.Join(o.Dir, RunsFile)}
	scenarios := rig.Must(o.chosen())
	l.skip(of.Ctx, scenarios)
	l.resume()
	l.playAll(of.Ctx, scenarios)
	err := rig.Catch(func() { rig.Check(l.report(scenarios)) }) // also if it cannot draw
	if o.Only != "" || o.Shorter != 1 {
		err = errors.Join(err, fmt.Errorf("only a part of the experiment was played: %w", result.ErrNotRecorded))
	}
	rig.Check(err)
}

// chosen returns the scenarios with the sides and rounds that the options select.
func (o *Options) chosen() (list []Scenario, err error) {
	scenarios := result.Map(Scenarios(), func(s Scenario) string { return s.Name })
	sides := result.Map(protections(), func(s Protection) string { return s.Name })
	words := strings.FieldsFunc(o.Only, func(r rune) bool { return r == ',' || r == ' ' })
	for _, word := range words {
		if !slices.Contains(scenarios, word) && !slices.Contains(sides, word) {
			return nil, &service.SettingError{Name: "ONLY", Value: o.Only,
				Problem: fmt.Sprintf("has %q; allowed: %s, %s", word, strings.Join(scenarios, ", "), strings.Join(sides, ", "))}
		}
	}
	// If no scenario or no side is named, all are meant.
	other := func(names []string) func(name string) bool {
		named := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !slices.Contains(names, w) })
		return func(name string) bool { return len(named) > 0 && !slices.Contains(named, name) }
	}
	for _, s := range Scenarios() {
		s.shorten(o.Shorter)
		s.Sides = slices.DeleteFunc(slices.Clone(s.Sides), other(sides))
		if o.Rounds > 0 {
			s.Rounds = o.Rounds
		}
		if !other(scenarios)(s.Name) && len(s.Sides) > 0 {
			list = append(list, s)
		}
	}
	return list, nil
}

// A lab is one run of the experiment.
//
// Safe for concurrent use: mu guards the runs, the file and out.
type lab struct {
	*Options
	out           *result.Report
	tools, commit string
	file          string
	live          bool // prints a line for each second of a run

	mu   sync.Mutex
	runs []Run
}

// skip removes the sides that cannot be played here and prints why.
func (l *lab) skip(ctx context.Context, scenarios []Scenario) {
	for _, side := range protections() {
		wanted := slices.ContainsFunc(scenarios, func(s Scenario) bool { return slices.Contains(s.Sides, side.Name) })
		if !wanted {
			continue
		}
		why := missing(ctx, side.Name, l.tools)
		if why == nil {
			continue
		}
		l.out.Note("Skipped: %s: %s", side.Name, why)
		for i := range scenarios {
			scenarios[i].Sides = slices.DeleteFunc(scenarios[i].Sides, func(name string) bool { return name == side.Name })
		}
	}
}

// load reads the runs of a file, which need not exist.
func load(file string) (runs []Run) {
	for line := range bytes.Lines(rig.ReadOptional(file)) {
		var r Run
		if json.Unmarshal(line, &r) == nil { // the last line may be incomplete
			runs = append(runs, r)
		}
	}
	return runs
}

// resume reads the recorded runs of this commit. It ignores those with uncommitted changes, which
// may have changed since.
func (l *lab) resume() {
	l.runs = slices.DeleteFunc(load(l.file),
		func(r Run) bool { return r.Commit != l.commit || strings.HasSuffix(r.Commit, "+") })
}

// played returns the recorded run of a scenario, side and round.
func (l *lab) played(s *Scenario, side string, round int) (run Run, ok bool) {
	i := slices.IndexFunc(l.runs, func(r Run) bool {
		return r.Shorter == l.Shorter && r.Scenario == s.Name && r.Side == side && r.Round == round
	})
	if i < 0 {
		return run, false
	}
	return l.runs[i], true
}

// keep adds a run to the file.
func (l *lab) keep(r Run) {
	line := rig.Must(json.Marshal(r))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, r)
	rig.Check(os.MkdirAll(l.Dir, 0o755))
	f := rig.Must(os.OpenFile(l.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))
	_, err := f.Write(append(line, '\n'))
	rig.Check(errors.Join(err, f.Close()))
}

// A turn is what runs at the same time: one side, or all sides of a scenario that run together.
type turn struct {
	s     *Scenario
	sides []string
	round int
}

// turns returns the turns that have not been played, round by round. The order of the sides is
// random in each round, so that none always runs after the same other one. It depends only on the
// round and the scenario, so it is the same when the experiment is resumed.
func (l *lab) turns(scenarios []Scenario) (list []turn, left time.Duration) {
	most := 0
	for _, s := range scenarios {
		most = max(most, s.Rounds)
	}
	for round := 1; round <= most; round++ {
		for i := range scenarios {
			if s := &scenarios[i]; round <= s.Rounds {
				list = append(list, l.round(s, round, rand.New(rand.NewPCG(uint64(round), uint64(i))))...)
			}
		}
	}
	for _, t := range list {
		left += t.s.Length() + setUpTime
	}
	return list, left
}

// round returns the turns of a scenario in a round.
func (l *lab) round(s *Scenario, round int, chance *rand.Rand) []turn {
	var todo []string
	for _, n := range chance.Perm(len(s.Sides)) {
		if _, done := l.played(s, s.Sides[n], round); !done {
			todo = append(todo, s.Sides[n])
		}
	}
	if s.Together && len(todo) > 0 {
		return []turn{{s, todo, round}}
	}
	return result.Map(todo, func(side string) turn { return turn{s, []string{side}, round} })
}

// playAll plays the turns that have not been played.
func (l *lab) playAll(ctx context.Context, scenarios []Scenario) {
	list, left := l.turns(scenarios)
	for i, t := range list {
		fmt.Fprintf(l.out, "  ▶ %d of %d, about %.0f min left: round %d, %s, %s\n", i+1, len(list), left.Minutes(),
			t.round, t.s.Name, strings.Join(t.sides, " and "))
		left -= t.s.Length() + setUpTime
		rig.Section(fmt.Sprintf("round %d of %s", t.round, t.s.Name), func() {
			rig.Parallel(len(t.sides), func(i int) { l.playOne(ctx, t, sideNamed(t.sides[i])) })
		})
	}
}

// playOne plays one side of a turn and records the run.
func (l *lab) playOne(ctx context.Context, t turn, side Protection) {
	for try := 1; ; try++ {
		score, st, err := l.play(ctx, t, side)
		if try == tries || ctx.Err() != nil || err == nil && st.validity != record.Invalid {
			rig.Section(side.Name, func() { rig.Check(err) })
			l.keep(Run{l.commit, l.Shorter, t.s.Name, side.Name, t.round, st.validity, st.reasons,
				time.Now().UTC().Truncate(time.Second), score})
			return
		}
		why := strings.Join(st.reasons, "; ")
		if err != nil {
			why = err.Error()
		}
		l.mu.Lock()
		fmt.Fprintf(l.out, "  %s is repeated: %s\n", side.Name, strings.ReplaceAll(why, "\n", " "))
		l.mu.Unlock()
	}
}
