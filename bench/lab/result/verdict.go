package result

import (
	"errors"
	"fmt"
	"strings"
)

// An Expectation is a bound on a figure, or a statement that must not be true.
type Expectation struct {
	Name  string  // of the figure, or the statement
	Value float64 // of the figure
	Bound string  // of the figure; empty for a statement
	Met   bool
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
	e.All = append(e.All, Expectation{name, value, fmt.Sprintf("≤ %.4g", bound), value <= bound})
}

// AtLeast expects a figure to be at least bound. NaN misses every bound.
func (e *Expectations) AtLeast(name string, value, bound float64) {
	e.All = append(e.All, Expectation{name, value, fmt.Sprintf("≥ %.4g", bound), value >= bound})
}

// Never expects wrong to be false; the message describes the finding if it is not.
func (e *Expectations) Never(wrong bool, format string, args ...any) {
	e.All = append(e.All, Expectation{Name: fmt.Sprintf(format, args...), Met: !wrong})
}

// Missed describes the expectations that were not met.
func (e *Expectations) Missed() (list []string) {
	for _, x := range e.All {
		if !x.Met {
			list = append(list, x.String())
		}
	}
	return list
}

// Figures returns a table of the figures with their bounds and verdicts.
func (e *Expectations) Figures() *Table {
	t := NewTable("expected | found | allowed | verdict")
	for _, x := range e.All {
		if x.Bound != "" {
			t.Add("%s | %.4g | %s | %s", x.Name, x.Value, x.Bound, map[bool]string{true: "met", false: "**missed**"}[x.Met])
		}
	}
	return t
}

// ErrMissed is the error of an experiment whose expectations were not all met.
var ErrMissed = errors.New("expectations missed")

// Conclude adds the conclusion to a report: passed if all expectations are met, otherwise what was
// missed. If doubt is not nil, it says why missed expectations are inconclusive, and is the
// error then. Otherwise the error is an ErrMissed that lists them.
func (e *Expectations) Conclude(r *Report, passed string, doubt error) error {
	missed := e.Missed()
	if len(missed) == 0 {
		r.Note("Passed: %s", passed)
		return nil
	}
	said, err := "FAILED:", fmt.Errorf("%w: %s", ErrMissed, strings.Join(missed, "; "))
	if doubt != nil {
		said, err = "Inconclusive, as the load was not as planned:", doubt
	}
	r.Note("%s", said)
	fmt.Fprintf(r, "  %s\n", strings.Join(missed, "\n  "))
	return err
}
