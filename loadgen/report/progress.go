package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"weir/internal/data/number"
	"weir/loadgen/record"
)

// Progress returns a line about a current run.
func Progress(s *record.Status) string {
	switch s.Phase {
	case record.PhaseWaiting:
		return "waiting for the start"
	case record.PhaseFinishing:
		return fmt.Sprintf("waiting for %d %s  %s", s.InFlight, plural("answer", s.InFlight), outcomes(s))
	}
	return fmt.Sprintf("%s of %s  %s/s of %s/s  %s", whole(s.Elapsed), whole(s.Duration), number.Rate(s.CurrentRps),
		number.Rate(s.TargetRps), outcomes(s))
}

func outcomes(s *record.Status) string {
	shed := ""
	if s.Shed > 0 {
		shed = "  shed " + number.Thousands(s.Shed)
	}
	counts := fmt.Sprintf("ok %s  limited %s%s  errors %s",
		number.Thousands(s.Success), number.Thousands(s.RateLimited), shed, number.Thousands(s.Errors))
	if s.Latency.P99 == 0 { // the first second has not ended
		return counts
	}
	return fmt.Sprintf("%s  p50 %s  p99 %s  lag p99 %s  generator %s",
		counts, number.Duration(s.Latency.P50), number.Duration(s.Latency.P99), number.Duration(s.Lag.P99), word(s.Verdict))
}

// whole formats seconds, with tenths below ten.
func whole(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.1f s", math.Floor(s*10)/10)
	}
	return fmt.Sprintf("%.0f s", math.Floor(s))
}

// Bar draws the share s in a bar of n places, for use before a Progress.
func Bar(share float64, n int) string {
	full := int(min(max(share, 0), 1) * float64(n))
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", n-full) + "]"
}

// Sparkline draws the sent rate of the last n steps of a run, scaled to the highest of them; empty if
// there is nothing to draw.
func Sparkline(course *record.Series, n int) string {
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

// Truncate truncates a line to width places, so that it can be overwritten.
func Truncate(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}
