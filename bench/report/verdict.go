package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Verdict says whether an expectation was met.
type Verdict uint8

const (
	Met Verdict = iota
	Missed
	Degraded // missed, but the load was not as planned, so it proves nothing
)

// String returns the verdict as shown in tables.
func (v Verdict) String() string { return [...]string{"met", "**missed**", "degraded"}[v] }

// An Expectation is a bound on a figure, or a statement that must not be true, with its
// verdict.
type Expectation struct {
	Name    string  // of the figure, or the statement
	Value   float64 // of the figure
	Bound   string  // of the figure; empty for a statement
	Verdict Verdict
}

// String describes the finding.
func (e Expectation) String() string {
	if e.Bound == "" {
		return e.Name
	}
	return fmt.Sprintf("%s: %.4g, expected %s", e.Name, e.Value, e.Bound)
}

// Expectations are the expectations of an experiment, in order. The zero value is empty.
//
// Owned by one goroutine.
type Expectations struct{ All []Expectation }

// AtMost expects a figure to be at most bound. NaN misses every bound.
func (e *Expectations) AtMost(name string, value, bound float64) {
	e.add(Expectation{Name: name, Value: value, Bound: fmt.Sprintf("≤ %.4g", bound)}, value <= bound)
}

// AtLeast expects a figure to be at least bound. NaN misses every bound.
func (e *Expectations) AtLeast(name string, value, bound float64) {
	e.add(Expectation{Name: name, Value: value, Bound: fmt.Sprintf("≥ %.4g", bound)}, value >= bound)
}

// Never expects wrong to be false; the message describes the finding if it is not.
func (e *Expectations) Never(wrong bool, format string, args ...any) {
	e.add(Expectation{Name: fmt.Sprintf(format, args...)}, !wrong)
}

func (e *Expectations) add(x Expectation, holds bool) {
	if !holds {
		x.Verdict = Missed
	}
	e.All = append(e.All, x)
}

// Missed describes the expectations that were not met.
func (e *Expectations) Missed() (list []string) {
	for _, x := range e.All {
		if x.Verdict != Met {
			list = append(list, x.String())
		}
	}
	return list
}

// Doubt changes the verdict Missed to Degraded.
func (e *Expectations) Doubt() {
	for i := range e.All {
		if e.All[i].Verdict == Missed {
			e.All[i].Verdict = Degraded
		}
	}
}

// Table returns the figures with their bounds and verdicts.
func (e *Expectations) Table() *Table {
	t := NewTable("expected | found | allowed | verdict")
	for _, x := range e.All {
		if x.Bound != "" {
			t.Add("%s | %.4g | %s | %v", x.Name, x.Value, x.Bound, x.Verdict)
		}
	}
	return t
}

// ErrMissed is the error of an experiment whose expectations were not all met.
var ErrMissed = errors.New("expectations missed")

// Conclude prints the conclusion: passed if all expectations are met, otherwise what was
// missed. If doubt is not nil, it says why missed expectations are inconclusive, and is the
// error then. Otherwise the error is an ErrMissed that lists them.
func (e *Expectations) Conclude(out io.Writer, passed string, doubt error) error {
	missed := e.Missed()
	switch {
	case len(missed) == 0:
		fmt.Fprintf(out, "\nPassed: %s\n", passed)
		return nil
	case doubt != nil:
		e.Doubt()
		fmt.Fprintf(out, "\nInconclusive, as the load was not as planned:\n  %s\n", strings.Join(missed, "\n  "))
		return doubt
	}
	fmt.Fprintf(out, "\nFAILED:\n  %s\n", strings.Join(missed, "\n  "))
	return fmt.Errorf("%w: %s", ErrMissed, strings.Join(missed, "; "))
}
