package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Verdict is what came of an expectation.
type Verdict uint8

const (
	Met      Verdict = iota // it holds
	Missed                  // it does not
	Degraded                // it does not, but the load was not as planned: that proves nothing
)

// String is the verdict in tables.
func (v Verdict) String() string { return [...]string{"met", "**missed**", "degraded"}[v] }

// An Expectation is something that must hold, and what came of it.
type Expectation struct {
	Name    string  // of the figure, or the sentence that says what must not be
	Value   float64 // of the figure
	Bound   string  // of the figure; empty: it is a sentence
	Verdict Verdict
}

// String says what was found.
func (e Expectation) String() string {
	if e.Bound == "" {
		return e.Name
	}
	return fmt.Sprintf("%s: %.4g, expected %s", e.Name, e.Value, e.Bound)
}

// Expectations are those of an experiment, in their order. The zero value has none.
//
// Owned by one goroutine.
type Expectations struct{ All []Expectation }

// AtMost expects that a figure is not above a bound. NaN misses every bound.
func (e *Expectations) AtMost(name string, value, bound float64) {
	e.add(Expectation{Name: name, Value: value, Bound: fmt.Sprintf("≤ %.4g", bound)}, value <= bound)
}

// AtLeast expects that a figure is not below a bound. NaN misses every bound.
func (e *Expectations) AtLeast(name string, value, bound float64) {
	e.add(Expectation{Name: name, Value: value, Bound: fmt.Sprintf("≥ %.4g", bound)}, value >= bound)
}

// Never expects that wrong is false; the sentence says what was found otherwise.
func (e *Expectations) Never(wrong bool, format string, args ...any) {
	e.add(Expectation{Name: fmt.Sprintf(format, args...)}, !wrong)
}

func (e *Expectations) add(x Expectation, holds bool) {
	if !holds {
		x.Verdict = Missed
	}
	e.All = append(e.All, x)
}

// Missed says what was found of each expectation that does not hold.
func (e *Expectations) Missed() (list []string) {
	for _, x := range e.All {
		if x.Verdict != Met {
			list = append(list, x.String())
		}
	}
	return list
}

// Doubt makes what is missed prove nothing.
func (e *Expectations) Doubt() {
	for i := range e.All {
		if e.All[i].Verdict == Missed {
			e.All[i].Verdict = Degraded
		}
	}
}

// Table shows the figures with their bounds and verdicts.
func (e *Expectations) Table() *Table {
	t := NewTable("expected | found | allowed | verdict")
	for _, x := range e.All {
		if x.Bound != "" {
			t.Add("%s | %.4g | %s | %v", x.Name, x.Value, x.Bound, x.Verdict)
		}
	}
	return t
}

// ErrMissed is among the errors of an experiment that found something that is not
// as it should be.
var ErrMissed = errors.New("not as it should be")

// Conclude prints whether everything holds; praise says then what that means. doubt,
// if any, is why what is missed proves nothing, and is the error then. Otherwise the
// error is ErrMissed and says what was found.
func (e *Expectations) Conclude(out io.Writer, praise string, doubt error) error {
	missed := e.Missed()
	switch {
	case len(missed) == 0:
		fmt.Fprintf(out, "\nAs it should be: %s\n", praise)
		return nil
	case doubt != nil:
		e.Doubt()
		fmt.Fprintf(out, "\nNot as it should be, which proves nothing, as the load was not as planned:\n  %s\n", strings.Join(missed, "\n  "))
		return doubt
	}
	fmt.Fprintf(out, "\nNOT AS IT SHOULD BE:\n  %s\n", strings.Join(missed, "\n  "))
	return fmt.Errorf("%w: %s", ErrMissed, strings.Join(missed, "; "))
}
