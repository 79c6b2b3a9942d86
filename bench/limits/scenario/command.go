package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/program/service"
)

// ResultsDir is the default of RESULTS_DIR: the records that this repository keeps.
const ResultsDir = "bench/results"

// Options are the settings of the experiment.
type Options struct {
	Algorithms, Stores []string
	Advisors           []bool
	Compress           float64
	Dir                string // of the page and the plots
	Cases              []Case // played instead of a matrix, if any
}

// Register adds the settings to s. When s has been parsed, o holds them.
func (o *Options) Register(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "COMPRESS", Default: strconv.Itoa(compressUsual), Value: service.Float(&o.Compress, 1, 3600),
			Help: "with scenario: factor by which time is compressed; rates are not changed"},
		{Name: "ALGORITHM", Default: "off,fixed,sliding,token", Value: someOf(&o.Algorithms, algorithms, algorithms),
			Help: "with scenario: algorithms, comma separated"},
		{Name: "STORE", Default: strings.Join(stores, ","), Value: someOf(&o.Stores, stores, stores),
			Help: "with scenario: stores, comma separated"},
		{Name: "ADVISOR", Default: "off,on", Value: someOf(&o.Advisors, []string{"off", "on"}, []bool{false, true}),
			Help: "with scenario: without the advisor, with it, or both"},
		{Name: "RESULTS_DIR", Default: ResultsDir, Value: service.String(&o.Dir),
			Help: "folder for records and plots; BENCHMARKS.md is updated only from the default"},
	})
}

// someOf is a list of some of the words, comma separated, each of which stands for a value.
func someOf[T any](p *[]T, words []string, values []T) service.Value {
	return service.Func(p, strings.Join(words, ", "), func(text string) (list []T, err error) {
		for word := range strings.SplitSeq(text, ",") {
			i := slices.Index(words, word)
			if i < 0 {
				return nil, fmt.Errorf("%q is not allowed", word)
			}
			list = append(list, values[i])
		}
		return list, nil
	})
}

// The choices, in the order of tables.
var (
	algorithms = []string{"off", "fixed", "sliding", "token", "sliding_log", "gcra", "leaky"}
	stores     = []string{"simulated", "redis"}
)

// All returns all cases.
func All() []Case { return Matrix(nil, algorithms, stores, []bool{false, true}) }

// compressUsual compresses an hour to half a minute. With much more, the advisor's intervals
// would be shorter than the time that the target takes to empty its queue.
const compressUsual = 120

// Run plays the named scenarios, or all, prints tables, and writes a page and plots to a folder.
func (o *Options) Run(l *rig.Lab, args []string) {
	args = slices.DeleteFunc(args, func(name string) bool { return name == "all" })
	for _, name := range args {
		if find(name) == nil {
			rig.UsageError("there is no scenario %q; there are steady, bursts, overload, failure, all", name)
		}
	}
	cases := o.Cases
	if cases == nil {
		cases = Matrix(args, o.Algorithms, o.Stores, o.Advisors)
	}
	if len(cases) == 0 {
		rig.UsageError("nothing to play: the scenario failure needs -store redis, and the algorithm off has no advisor")
	}
	l.Note("Limit %d/s, a target that can serve %d/s (%d workers, %v each, exponential), SLO %v at p95; "+
		"compressed by %.3g", limit, capacity, workers, delay, slo, o.Compress)
	page := result.Page{Title: "Weir: the scenarios, measured", About: about}
	for _, s := range Scenarios() {
		runs := o.playAll(l, &s, cases)
		if len(runs) == 0 {
			continue
		}
		show(l.Report, &s, runs)
		c, files := newChapter(&s, runs, o.Dir)
		l.Attach(files...)
		page.Chapters = append(page.Chapters, c)
	}
	page.Lead = l.Record(time.Now(), nil).Lead()
	path := filepath.Join(o.Dir, "scenarios.html")
	rig.Check(page.Write(path))
	fmt.Fprintf(l, "  report: %s\n", path)
}

// tries bounds how often a case is played if the load generator could not keep its schedule.
const tries = 2

// playAll plays the cases of a scenario and prints which are skipped and why.
func (o *Options) playAll(l *rig.Lab, s *Scenario, cases []Case) (runs []*Run) {
	for i, c := range cases {
		if c.Scenario != s.Name {
			continue
		}
		if why := installed(c); why != nil {
			l.Note("Skipped: %s: %s", c, why)
			continue
		}
		fmt.Fprintf(l, "  ▶ %d of %d: %s\n", i+1, len(cases), c)
		var r *Run
		for try := 1; try == 1 || try <= tries && r.Load.Verdict == "INVALID"; try++ {
			st := &stage{Lab: l}
			rig.Section(c.String(), func() { rig.Check(l.Run(l.Ctx, func() { r = st.play(c, o.Compress) })) })
		}
		runs = append(runs, r)
	}
	return runs
}
