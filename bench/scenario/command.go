package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/bench/report"
	"weir/bench/result"
	"weir/internal/service"
)

// ResultsDir is the default of RESULTS_DIR: the records that this repository keeps.
const ResultsDir = "bench/results"

// An Order is what a user wants to have played.
type Order struct {
	Algorithms, Stores []string
	Advisors           []bool
	Compress           float64
	Dir                string // of the page and the plots
	// Cases are what is played in place of a matrix.
	Cases []Case
}

// Register adds the settings to s; afterwards, and after s has been parsed, o
// holds them.
func (o *Order) Register(s *service.Settings) {
	s.Float(&o.Compress, "COMPRESS", compressUsual, 1, 3600, "with scenario: plays this many seconds in one; rates are kept")
	s.Func("ALGORITHM", "off,fixed,sliding,token", "with scenario: algorithms, comma separated", strings.Join(algorithms, ", "), func(text string) (err error) {
		o.Algorithms, err = choice(text, algorithms)
		return err
	})
	s.Func("STORE", strings.Join(stores, ","), "with scenario: stores, comma separated", strings.Join(stores, ", "), func(text string) (err error) {
		o.Stores, err = choice(text, stores)
		return err
	})
	s.Func("ADVISOR", "off,on", "with scenario: without the advisor, with it, or both", "off, on", func(text string) error {
		words, err := choice(text, []string{"off", "on"})
		o.Advisors = nil
		for _, word := range words {
			o.Advisors = append(o.Advisors, word == "on")
		}
		return err
	})
	s.String(&o.Dir, "RESULTS_DIR", ResultsDir, "where records go, and what scenarios draw; BENCHMARKS.md is written only from the default")
}

// What may be chosen, in the order of tables.
var (
	algorithms = []string{"off", "fixed", "sliding", "token", "sliding_log", "gcra", "leaky"}
	stores     = []string{"simulated", "redis"}
)

// Algorithms are all that can be played.
func Algorithms() []string { return slices.Clone(algorithms) }

// Stores are all that limits can be kept in.
func Stores() []string { return slices.Clone(stores) }

// compressUsual makes an hour half a minute. Much more, and the advisor's half
// minutes are shorter than the target takes to empty its queue.
const compressUsual = 120

// Play plays the scenarios of these names, all when there is none, and prints
// tables; the page and the plots go to a folder. An error names what was wrong.
func (o *Order) Play(ctx context.Context, args []string, out io.Writer) error {
	args = slices.DeleteFunc(args, func(name string) bool { return name == "all" })
	for _, name := range args {
		if find(name) == nil {
			return &service.ExitError{Status: 2, Err: fmt.Errorf("there is no scenario %q; there are steady, bursts, overload, failure, all", name)}
		}
	}
	cases := o.Cases
	if cases == nil {
		cases = Matrix(args, o.Algorithms, o.Stores, o.Advisors)
	}
	if len(cases) == 0 {
		return &service.ExitError{Status: 2, Err: errors.New("nothing to play: the scenario failure wants -store redis, and the algorithm off has no advisor")}
	}
	fmt.Fprintf(out, "Limit %d/s, a target that can do %d/s (%d workers, %v each, exponential), SLO %v at p95, GATE=off; %.3g s in one\n", limit, capacity, workers, delay, slo, o.Compress)
	began := result.NewRecorder(time.Now(), io.Discard, "scenario", args)
	page := report.Page{Title: "Weir: the scenarios, measured", About: about}
	for _, s := range Scenarios() {
		runs, err := o.playAll(ctx, &s, cases, out)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			continue
		}
		show(out, &s, runs)
		c, files, err := newChapter(&s, runs, o.Dir)
		if err != nil {
			return err
		}
		if r, kept := out.(*result.Recorder); kept {
			for _, file := range files {
				r.Keep(file)
			}
		}
		page.Chapters = append(page.Chapters, c)
	}
	page.Lead = began.Record(time.Now(), nil).Lead()
	path := filepath.Join(o.Dir, "scenarios.html")
	if err := page.Write(path); err != nil {
		return err
	}
	fmt.Fprintf(out, "  the report: %s\n", path)
	return nil
}

// tries is how often a case is played when the load generator could not keep
// its schedule.
const tries = 2

// playAll plays the cases of a scenario, and says what is left out and why.
func (o *Order) playAll(ctx context.Context, s *Scenario, cases []Case, out io.Writer) (runs []*Run, err error) {
	for i, c := range cases {
		if c.Scenario != s.Name {
			continue
		}
		if why := installed(c); why != "" {
			fmt.Fprintf(out, "Left out: %s: %s\n", c, why)
			continue
		}
		fmt.Fprintf(out, "  ▶ %d of %d: %s\n", i+1, len(cases), c)
		var r *Run
		for try := 1; try == 1 || try <= tries && r.Load.Verdict == "INVALID"; try++ {
			if r, err = play(ctx, c, o.Compress, out); err != nil {
				return nil, fmt.Errorf("%s: %w", c, err)
			}
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// choice reads a comma separated list of what is allowed.
func choice(text string, allowed []string) (list []string, err error) {
	for word := range strings.SplitSeq(text, ",") {
		if !slices.Contains(allowed, word) {
			return nil, fmt.Errorf("%q is none of them", word)
		}
		list = append(list, word)
	}
	return list, nil
}
