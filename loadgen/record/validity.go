package record

import (
	"fmt"
	"slices"

	"weir/internal/data/number"
)

// A Validity says whether the load was as planned. It is about the generator, not the target: a run
// with only errors is valid if all requests were sent on time.
type Validity string

const (
	Valid    Validity = "VALID"    // the schedule was kept, so the figures are reliable
	Degraded Validity = "DEGRADED" // some requests were late; consider the lag before relying on the figures
	Invalid  Validity = "INVALID"  // the load was not as planned
)

// Verdicts returns all verdicts, from good to bad.
func Verdicts() []Validity { return []Validity{Valid, Degraded, Invalid} }

// Worse returns the worse of two verdicts; an empty one is better than any other.
func Worse(a, b Validity) Validity {
	order := Verdicts()
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// The rules, with their reasons. Lag is judged by its 99th percentile because
// people look at the 95th and 99th percentiles of latency: a lag that only the
// last percent sees changes neither. A single long pause does not show in
// these, so late requests are counted as well.
const (
	// Latencies worth measuring over a network are milliseconds, and include the lag.
	lagValid         = 0.001
	lagInvalid       = 0.010 // with more, requests are bunched in a way that was not planned
	rateErrorValid   = 0.001 // less than two runs of the same target differ
	rateErrorInvalid = 0.01  // a limit tested with one percent less than planned is another test
)

// ValidityEvidence is the basis of a Validity.
type ValidityEvidence struct {
	Due                 uint64  // requests due up to LateThreshold ago
	Started             uint64  // of these, no later than LateThreshold after the end of the schedule
	Unconnected         uint64  // of these, not sent, because connecting failed or their heads are too large
	Late                uint64  // requests with a pacer lag beyond LateThreshold
	PacerLagP99, LagP99 float64 // seconds
	Dialled             bool    // requests that waited for a connection mostly waited for a new one
}

// Evidence returns the evidence in the histograms of t.
func (t *Tally) Evidence() ValidityEvidence {
	return ValidityEvidence{
		PacerLagP99: t.PacerLag.Summary().P99, LagP99: t.Lag.Summary().P99,
		Dialled: t.DialLag.Summary().Count > t.BusyLag.Summary().Count,
	}
}

// Count adds what was counted while so many requests were due.
func (e *ValidityEvidence) Count(c *Counts, due uint64) {
	e.Due, e.Started, e.Late = due, c.Started-min(c.Started, c.SentBehind), c.SentLate
	e.Unconnected = c.Unconnected
}

// RateError returns the share of the due requests that were not sent, or attempted, in time.
func (e ValidityEvidence) RateError() float64 {
	if e.Started >= e.Due {
		return 0
	}
	return float64(e.Due-e.Started) / float64(e.Due)
}

// Judge returns the verdict with all reasons for it, the most important first.
func (e ValidityEvidence) Judge() (Validity, []string) {
	var invalid, degraded []string
	switch r := e.RateError(); {
	case r > rateErrorInvalid:
		invalid = append(invalid, fmt.Sprintf(
			"only %.2f %% of the due requests were sent in time: the target was too slow for the available connections, or "+
				"this machine for the rate",
			100*(1-r)))
	case r > rateErrorValid:
		degraded = append(degraded, fmt.Sprintf("%.2f %% of the due requests were not sent in time", 100*r))
	}
	switch p99 := e.PacerLagP99; {
	case p99 > lagInvalid:
		invalid = append(invalid, fmt.Sprintf("the generator was late while connections were idle: pacer lag p99 %s",
			number.Duration(p99)))
	case p99 > lagValid:
		degraded = append(degraded,
			fmt.Sprintf("the generator was a little late while connections were idle: pacer lag p99 %s", number.Duration(p99)))
	}
	if float64(e.Late) > rateErrorValid*float64(e.Due) {
		degraded = append(degraded, fmt.Sprintf("the generator stalled: %d requests missed their time by more than %d ms",
			e.Late, LateThreshold.Milliseconds()))
	}
	if e.LagP99 > lagValid && e.PacerLagP99 <= lagValid {
		cause := "all connections were busy"
		if e.Dialled {
			cause = "connections had to be opened first"
		}
		degraded = append(degraded, fmt.Sprintf("%s (lag p99 %s): the target saw requests later than planned", cause,
			number.Duration(e.LagP99)))
	}
	if float64(e.Unconnected) > rateErrorValid*float64(e.Due) {
		degraded = append(degraded, fmt.Sprintf(
			"%d requests were not sent, because connecting failed or their heads are too large: the target saw fewer than "+
				"planned", e.Unconnected))
	}
	switch {
	case len(invalid) > 0:
		return Invalid, append(invalid, degraded...)
	case len(degraded) > 0:
		return Degraded, degraded
	}
	return Valid, []string{}
}
