package rules

import (
	"fmt"
	"io"
	"math"
	"time"

	"weir/bench/report"
)

// ratioMax is the most that ten rules of which two match may cost, as a multiple
// of the global limit alone.
const ratioMax = 1.10

// A run is what one run of the load saw.
type run struct {
	requests float64
	failed   float64            // refused, or not answered by the target
	judged   float64            // decisions of all rules
	rules    map[string]float64 // decisions of the rules that match
	cpu      time.Duration      // of the proxy
	span     time.Duration
}

// A pair is two runs one after the other.
type pair struct{ one, all run }

// underWay is how many requests may have been decided and not been over at the
// beginning and the end of a run: one of each connection.
const underWay = 2 * connections

// problem says why a run is worth nothing: each request must have been admitted
// by the global rule and those that match, and by no other.
func (r run) problem(name string) error {
	if r.requests < 1 || r.failed > 0 {
		return fmt.Errorf("%s: of %.0f requests %.0f were refused or failed, which makes the comparison worthless", name, r.requests, r.failed)
	}
	for id, n := range r.rules {
		if math.Abs(n-r.requests) > underWay {
			return fmt.Errorf("%s: rule %s decided %.0f of %.0f requests, it should match all", name, id, n, r.requests)
		}
	}
	if want := r.requests * float64(1+len(r.rules)); math.Abs(r.judged-want) > underWay*float64(1+len(r.rules)) {
		return fmt.Errorf("%s: there were %.0f decisions of rules about %.0f requests, it should be %.0f", name, r.judged, r.requests, want)
	}
	return nil
}

// micros is the CPU time of a request.
func (r run) micros() float64 { return 1e6 * r.cpu.Seconds() / r.requests }

func (r run) perSecond() float64 { return r.requests / r.span.Seconds() }

// judge prints the table. The error says that the rules cost too much.
func judge(out io.Writer, one, all string, pairs []pair) error {
	report.Head(out, "", one, all, "ratio")
	row := func(what string, digits int, of func(run) float64) report.Spread {
		mine, theirs := func(p pair) float64 { return of(p.one) }, func(p pair) float64 { return of(p.all) }
		ratio := report.SpreadOf(pairs, func(p pair) float64 { return of(p.all) / of(p.one) })
		report.Row(out, what, fmt.Sprintf("%.*f", digits, report.MedianOf(pairs, mine)), fmt.Sprintf("%.*f", digits, report.MedianOf(pairs, theirs)), ratio.Ratio(2))
		return ratio
	}
	ratio := row("CPU µs per request", 2, run.micros)
	row("requests/s", 0, run.perSecond)
	var e report.Expectations
	e.AtMost("CPU of ten rules by that of the global limit alone", ratio.Median, ratioMax)
	return e.Conclude(out, fmt.Sprintf("at most %.2f times the CPU of the global limit alone.", ratioMax), nil)
}
