package restart

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A tally is what came of the exchanges of one kind.
type tally struct {
	ok      int
	across  int // of all, how many were under way when the proxy was replaced
	faults  [faults]int
	longest time.Duration
}

// A change is one replacement of the proxy.
type change struct {
	number  int
	handed  time.Duration // from the successor's start until the first answer of its
	drained time.Duration // from then until the one before had ended
	problem string        // why the one before did not end as it should
}

// A result is what came of a run.
type result struct {
	kinds      []kind
	tallies    map[string]*tally
	changes    []change
	idleClosed int64
	details    []string // of the first failures
}

// problems are what must not be.
func (r *result) problems() (list []string) {
	for _, k := range r.kinds {
		t := r.tallies[k.name]
		for f := none + 1; f < faults; f++ {
			if t.faults[f] > 0 {
				list = append(list, fmt.Sprintf("%s: %d %v", k.name, t.faults[f], f))
			}
		}
		if t.ok == 0 {
			list = append(list, k.name+": no exchange at all")
		}
		if k.long && t.across == 0 {
			list = append(list, k.name+": none was under way when the proxy was replaced, so nothing is proved")
		}
	}
	for _, c := range r.changes {
		if c.problem != "" {
			list = append(list, fmt.Sprintf("restart %d: %s", c.number, c.problem))
		}
	}
	return append(list, r.details...)
}

var errNotAsItShouldBe = errors.New("not as it should be")

// report prints the tables and judges.
func (r *result) report(out io.Writer) error {
	fmt.Fprint(out, "\n| exchanges | answered | across a restart | refused | reset | cut | wrong | longest ms | |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, k := range r.kinds {
		t := r.tallies[k.name]
		fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %d | %d | %.0f | %s |\n", k.name, t.ok, t.across, t.faults[refused], t.faults[reset], t.faults[cut], t.faults[wrong],
			1e3*t.longest.Seconds(), k.about)
	}
	handed := spread(r.changes, func(c change) time.Duration { return c.handed })
	drained := spread(r.changes, func(c change) time.Duration { return c.drained })
	fmt.Fprintf(out, "\n| %d restarts | least | median | most |\n| --- | --- | --- | --- |\n| hand-over ms | %s |\n| drain of the old process ms | %s |\n", len(r.changes), handed, drained)
	fmt.Fprintf(out, "\nA hand-over lasts from the start of the new process until the first answer that came through it.\n"+
		"%d connections were found closed before anything was sent on them, which is no failure.\n", r.idleClosed)
	if problems := r.problems(); len(problems) > 0 {
		fmt.Fprintf(out, "\nNOT AS IT SHOULD BE:\n  %s\n", strings.Join(problems, "\n  "))
		return errNotAsItShouldBe
	}
	fmt.Fprintln(out, "\nAs it should be: no connect was refused, every request was answered and no answer was cut.")
	return nil
}

// spread is the least, the median and the most, as cells of a table.
func spread(changes []change, of func(change) time.Duration) string {
	if len(changes) == 0 {
		return "– | – | –"
	}
	var all []time.Duration
	for _, c := range changes {
		all = append(all, of(c))
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return 1e3 * d.Seconds() }
	return fmt.Sprintf("%.0f | %.0f | %.0f", ms(all[0]), ms(all[len(all)/2]), ms(all[len(all)-1]))
}
