package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"weir/loadgen/record"
)

// Progress is one line about a run under way.
func Progress(s *record.Status) string {
	switch s.Phase {
	case record.PhaseWaiting:
		return "waiting for the start"
	case record.PhaseFinishing:
		return fmt.Sprintf("waiting for %d %s  %s", s.InFlight, plural("answer", s.InFlight), outcomes(s))
	}
	return fmt.Sprintf("%s of %s  %s/s of %s/s  %s", whole(s.Elapsed), whole(s.Duration), decimal(s.CurrentRps), decimal(s.TargetRps), outcomes(s))
}

func outcomes(s *record.Status) string {
	counts := fmt.Sprintf("ok %s  limited %s  errors %s", Thousands(s.Success), Thousands(s.RateLimited), Thousands(s.Errors))
	if s.Latency.P99 == 0 { // the first second is not over
		return counts
	}
	return fmt.Sprintf("%s  p50 %s  p99 %s  lag p99 %s  generator %s",
		counts, record.Span(s.Latency.P50), record.Span(s.Latency.P99), record.Span(s.Lag.P99), word(s.Verdict))
}

// whole writes seconds without a fraction, unless all of it is one.
func whole(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.1f s", math.Floor(s*10)/10)
	}
	return fmt.Sprintf("%.0f s", math.Floor(s))
}

// Bar is the share s of a bar of n places; it fits before a Progress.
func Bar(share float64, n int) string {
	full := int(min(max(share, 0), 1) * float64(n))
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", n-full) + "]"
}

// Spark draws the rate of sending over the last n steps of a run, from zero to
// the highest of them; empty before there is anything to compare.
func Spark(course *record.Series, n int) string {
	const blocks = "▁▂▃▄▅▆▇█"
	rows := course.Rows
	rows = rows[max(0, len(rows)-n):]
	highest := uint64(0)
	for _, r := range rows {
		highest = max(highest, r.Sent)
	}
	if len(rows) < 2 || highest == 0 {
		return ""
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteRune([]rune(blocks)[r.Sent*7/highest])
	}
	return b.String()
}

// Fit cuts a line to width places, so that it can be drawn over.
func Fit(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}
