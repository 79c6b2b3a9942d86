package restart

import (
	"fmt"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// A tally counts the exchanges of one kind.
type tally struct {
	ok      int
	across  int // exchanges in progress when the proxy was replaced
	faults  [faults]int
	longest time.Duration
}

// A change is one replacement of the proxy.
type change struct {
	number  int
	handed  time.Duration // from the start of the successor until its first answer
	drained time.Duration // from then until the predecessor had ended
	problem string        // why the predecessor did not end normally
}

func (r *run) expect(e *result.Expectations) {
	for _, k := range r.kinds {
		t := r.tallies[k.name]
		for f := none + 1; f < faults; f++ {
			e.Never(t.faults[f] > 0, "%s: %d %v", k.name, t.faults[f], f)
		}
		e.Never(t.ok == 0, "%s: no exchange succeeded", k.name)
		e.Never(k.long && t.across == 0, "%s: none was in progress when the proxy was replaced, so nothing is proved", k.name)
	}
	for _, c := range r.changes {
		e.Never(c.problem != "", "restart %d: %s", c.number, c.problem)
	}
	for _, text := range r.details {
		e.Never(true, "%s", text)
	}
}

func (r *run) show(l *rig.Lab) {
	l.Head("exchanges", "answered", "across a restart", "refused", "reset", "cut", "wrong", "longest ms", "")
	for _, k := range r.kinds {
		t := r.tallies[k.name]
		l.Add("%s | %d | %d | %d | %d | %d | %d | %.0f | %s", k.name, t.ok, t.across, t.faults[refused],
			t.faults[reset], t.faults[cut], t.faults[wrong], 1e3*t.longest.Seconds(), k.about)
	}
	l.Head(fmt.Sprintf("%d restarts", len(r.changes)), "least", "median", "most")
	times := func(name string, of func(c change) time.Duration) {
		s := result.SpreadOf(r.changes, func(c change) float64 { return result.Millis(of(c)) })
		l.Add("%s | %.0f | %.0f | %.0f", name, s.Least, s.Median, s.Most)
	}
	times("hand-over ms", func(c change) time.Duration { return c.handed })
	times("drain of the old process ms", func(c change) time.Duration { return c.drained })
	l.Note("A hand-over lasts from the start of the new process until its first answer. %d connections were found "+
		"closed before anything was sent on them, which is not a failure.", r.idleClosed.Load())
	r.expect(&l.Expectations)
	l.Conclude("no connection was refused, every request was answered and no answer was truncated.", nil)
}
