package profile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// A Trace is recorded traffic: rates or counts over time, or the times of single
// requests.
type Trace struct {
	kind kind  // says what the values are
	rows []row // by time
}

// A kind is the meaning of the rows of a trace.
type kind uint8

const (
	kindRates    kind = iota // a rate that holds until the next row
	kindCounts               // how many requests came until the next row
	kindSeconds              // how many requests came in the second that begins here
	kindArrivals             // one request
)

// A row is a line of a trace, or what lines with the same second have together.
type row struct {
	at    time.Duration // after the first row
	value float64       // rate or count
	line  int           // 0: of several
}

// TraceOptions say how a trace is played back.
type TraceOptions struct {
	// Speedup is the factor of playing back faster than recorded. The rates increase by
	// the same factor.
	Speedup float64
	// ScaleRps multiplies the rates, and with them the number of requests. To play a day
	// at its own rates in an hour, use Speedup 24 and ScaleRps 1/24.
	ScaleRps float64
	Name     string // in the log
}

// The bounds of factors.
const (
	factorMin = 1e-6
	factorMax = 1e6
)

// gapFactor is how much longer than usual a step between two counts must be to count as a
// gap in the record.
const gapFactor = 1.5

// NewTrace returns the profile of a trace, and how long it lasts. After its end there are
// no arrivals. Errors are strict.Faults, or name a line of the trace.
//
// A rate holds, and a count is spread evenly, up to the next row. The last row lasts as
// long as the median row. If a step between counts is longer than gapFactor times the
// median, rows are missing in the record: the count belongs to a step of the median
// length, and the rest is empty. Requests whose times are known to the second are spread
// over it; with more exact times, and uniform arrivals, each comes at its own time.
func NewTrace(t *Trace, o TraceOptions) (p *Profile, length time.Duration, err error) {
	var c checker
	c.factor("speedup", o.Speedup)
	c.factor("scaleRps", o.ScaleRps)
	if err := c.Err(); err != nil {
		return nil, 0, err
	}
	player := player{speedup: o.Speedup, scale: o.ScaleRps}
	if t.kind == kindArrivals {
		player.playArrivals(t.rows)
	} else {
		player.playRows(t)
	}
	if player.fault != nil {
		return nil, 0, player.fault
	}
	p = &Profile{text: fmt.Sprintf("trace (file=%s)", o.Name), pieces: player.finish(), most: player.most,
		listed: t.kind == kindArrivals}
	if p.end().base.zero() {
		return nil, 0, errors.New("it contains no requests")
	}
	if t.kind == kindRates || t.kind == kindCounts {
		p.findPeaks()
	}
	return p, player.at, nil
}

func (c *checker) factor(param string, v float64) {
	c.Check(!(v >= factorMin && v <= factorMax), param, "must be a number from %g to %g, is %g", factorMin,
		float64(factorMax), v)
}

// A player makes the pieces of a trace.
type player struct {
	builder
	speedup, scale float64
	most           float64 // highest rate
	fault          error   // the first
}

// sped converts a time of the record, in seconds, to a time of the run.
func (p *player) sped(seconds float64) time.Duration {
	return time.Duration(math.Round(min(seconds/p.speedup*nanos, math.MaxInt64/2)))
}

// The bounds of what a trace may contain.
const (
	recordMax   = 366 * 24 * time.Hour // how long it lasts in the run
	arrivalsMax = 8e12                 // in one piece
)

// fail records a fault at a line; 0 means no particular line.
func (p *player) fail(line int, format string, args ...any) {
	problem := fmt.Sprintf(format, args...) + fmt.Sprintf(", with speedup %g and scaleRps %g", p.speedup, p.scale)
	switch {
	case p.fault != nil:
	case line == 0:
		p.fault = errors.New(problem)
	default:
		p.fault = fmt.Errorf("line %d: %s", line, problem)
	}
}

// until appends an even piece up to end with the given amount of arrivals.
func (p *player) until(end time.Duration, arrivals float64, line int) {
	length := end - p.at
	rate := arrivals / length.Seconds()
	switch {
	case p.fault != nil || length <= 0 && arrivals == 0:
	case end > recordMax:
		p.fail(line, "it is more than a year after the first request")
	case length <= 0 || rate > RateMax || arrivals > arrivalsMax:
		p.fail(line, "it contains more than %d requests per second", RateMax)
	default:
		p.most = max(p.most, rate)
		p.even(length, Count(math.Round(arrivals*float64(One))))
	}
}

func (p *player) playRows(t *Trace) {
	usual := time.Second
	if t.kind != kindSeconds {
		usual = usualStep(t.rows)
	}
	for i, r := range t.rows {
		end := r.at + usual
		if i+1 < len(t.rows) {
			end = t.rows[i+1].at
		}
		amount, covered := r.value, end
		if t.kind == kindRates {
			amount *= (end - r.at).Seconds()
		} else if float64(end-r.at) > gapFactor*float64(usual) {
			covered = r.at + usual
		}
		p.until(p.sped(covered.Seconds()), amount*p.scale, r.line)
		p.until(p.sped(end.Seconds()), 0, r.line)
	}
}

// usualStep returns the median of the steps between rows. It is a second if there is only
// one row.
func usualStep(rows []row) time.Duration {
	if len(rows) < 2 {
		return time.Second
	}
	steps := make([]time.Duration, len(rows)-1)
	for i := range steps {
		steps[i] = rows[i+1].at - rows[i].at
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}

// playArrivals appends the pieces of requests with exact times: Λ passes k + ½ at the time of
// request k. Requests at the same nanosecond are placed a nanosecond apart.
func (p *player) playArrivals(rows []row) {
	scaled := Count(math.Round(p.scale * float64(One)))
	window := 0 // the first row of the second before this one
	for i, r := range rows {
		at := max(p.sped(r.at.Seconds()), p.at+1)
		amount := scaled
		if i == 0 {
			amount = scaled / 2
		}
		if at > recordMax {
			p.fail(r.line, "it is more than a year after the first request")
			return
		}
		p.even(at-p.at, amount)
		for p.sped(rows[window].at.Seconds()) <= at-time.Second {
			window++
		}
		p.most = max(p.most, float64(i-window+1)*p.scale)
		if p.most > RateMax {
			p.fail(r.line, "it contains more than %d requests per second", RateMax)
			return
		}
	}
	p.even(1, scaled-scaled/2) // the other half of the last one
}
