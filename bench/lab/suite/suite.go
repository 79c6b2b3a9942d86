// Package suite runs several experiments and keeps their results: records in a folder,
// the updated page BENCHMARKS.md, and a comparison with the previous records.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// A Part is one experiment of a suite.
type Part struct {
	Name string
	Args []string
	Run  func(l *rig.Lab, args []string)
}

// A Plan says what Run runs and where the results go.
type Plan struct {
	Parts  []Part
	Dir    string // for the records
	Before string // folder of the previous records, whose ratios are compared
	Page   string // file that is refreshed with the records; empty for none
	// Lenient says that ratios that became worse are shown but are not a failure, as the
	// previous records may be from another machine.
	Lenient bool
}

// ErrFailed says that an experiment failed or that a ratio became worse.
var ErrFailed = errors.New("an experiment failed, or a ratio became worse")

// finished is a part that has been run, for the summary.
type finished struct {
	record *result.Record
	worse  []string
	known  int    // number of compared ratios
	left   string // why no record was kept
}

// Run runs the parts in order. A part that fails does not stop the others; the error then is
// ErrFailed. If ctx ends, Run returns its error; the records of finished parts are kept.
func Run(ctx context.Context, p Plan, out io.Writer) error {
	return rig.Catch(func() {
		var done []finished
		began := time.Now()
		for i, part := range p.Parts {
			fmt.Fprintf(out, "\n▶ %d of %d, after %.0f s: %s\n\n", i+1, len(p.Parts), time.Since(began).Seconds(),
				strings.Join(append([]string{part.Name}, part.Args...), " "))
			report := result.NewReport(time.Now(), out, part.Name, part.Args)
			l := &rig.Lab{Report: report}
			fault := l.Run(ctx, func() { part.Run(l, part.Args) })
			rig.Check(ctx.Err())
			done = append(done, p.keep(report.Record(time.Now(), fault), fault))
			if fault != nil {
				fmt.Fprintf(out, "\n%s: %v\n", part.Name, fault)
			}
		}
		p.summary(out, done)
	})
}

// keep compares a record with the previous one and writes it, unless fault wraps
// result.ErrNotRecorded.
func (p *Plan) keep(r *result.Record, fault error) finished {
	f := finished{record: r}
	if errors.Is(fault, result.ErrNotRecorded) {
		f.left = fault.Error()
		return f
	}
	if before := rig.Must(result.Load(p.Before, r.Experiment)); before != nil {
		f.worse, f.known = result.Regressions(before, r), len(before.Ratios())
	}
	rig.Check(r.Save(p.Dir))
	p.refresh(r)
	return f
}

func (p *Plan) refresh(r *result.Record) {
	page := rig.ReadOptional(p.Page) // there is none without a name either
	if page == nil {
		return
	}
	rig.Section("refresh "+p.Page, func() { page = rig.Must(r.Refresh(page)) })
	rig.Check(os.WriteFile(p.Page, page, 0o644))
}

// Show refreshes the page from the records.
func (p *Plan) Show() error {
	return rig.Catch(func() {
		for _, r := range rig.Must(result.LoadAll(p.Dir)) {
			p.refresh(r)
		}
	})
}

func (p *Plan) summary(out io.Writer, done []finished) {
	bad := 0
	fmt.Fprintf(out, "\nSummary\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range done {
		says := "done"
		switch {
		case f.left != "":
			says = "left out: " + f.left
		case f.record.Fault != "":
			says, bad = "failed: "+strings.ReplaceAll(f.record.Fault, "\n", "; "), bad+1
		case len(f.worse) > 0:
			says = "worse than before"
			if !p.Lenient {
				bad++
			}
		case f.known > 0:
			says = fmt.Sprintf("done, none of %d ratios became worse", f.known)
		}
		fmt.Fprintf(w, "  %s\t%.0f s\t%s\n", f.record.Experiment, f.record.Took, says)
	}
	rig.Check(w.Flush())
	for _, f := range done {
		for _, text := range f.worse {
			fmt.Fprintf(out, "  worse: %s\n", text)
		}
	}
	if bad > 0 {
		rig.Check(ErrFailed)
	}
}
