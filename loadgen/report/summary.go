// Package report formats the results of a run: a line of progress, a summary, JSON, and a page with
// plots. The same result gives the same bytes.
package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-json"

	"weir/internal/data/number"
	"weir/internal/data/strict"
	"weir/loadgen/record"
)

// JSON returns the result in the form that is written to files.
func JSON(r *record.Result) ([]byte, error) {
	b, err := json.MarshalIndentWithOption(r, "", "  ", json.DisableHTMLEscape())
	if err != nil {
		return nil, fmt.Errorf("write result as JSON: %w", err)
	}
	return append(strict.NormalizeJSON(b), '\n'), nil
}

// Summary returns the result as text: the health of the target, the verdict on the run, the
// requests, their outcomes, and times.
func Summary(r *record.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nLoad test %s: %s for %s on %s\n", r.TestID, r.Profile, number.Duration(r.Duration), r.URL)
	if r.End == record.EndStopped {
		fmt.Fprintf(&b, "stopped after %s\n", number.Duration(r.Elapsed))
	}
	if shards := shardsOf(r); shards != "" {
		fmt.Fprintf(&b, "%s, schedule %s\n", shards, r.ScheduleHash)
	}
	b.WriteString("\n")
	verdict(&b, r)
	requests(&b, r)
	times(&b, r)
	connections(&b, r)
	thresholds(&b, r)
	return b.String()
}

// shardsOf describes the shards of the result; empty if there was a single generator.
func shardsOf(r *record.Result) string {
	if len(r.Shards) == 0 || r.Shards[0].Of <= 1 {
		return ""
	}
	return fmt.Sprintf("%s %s of %d", plural("shard", len(r.Shards)), r.Indices(), r.Shards[0].Of)
}

// row writes a line with a word in the first column.
func row(b *strings.Builder, word, format string, args ...any) {
	fmt.Fprintf(b, "%-14s "+format+"\n", append([]any{word}, args...)...)
}

func verdict(b *strings.Builder, r *record.Result) {
	kept := fmt.Sprintf("lag p50 %s, p99 %s; %s/s sent of %s/s planned",
		number.Duration(r.Lag.P50), number.Duration(r.Lag.P99), number.Rate(r.SentRps), number.Rate(r.TargetRps))
	row(b, "Target", "%s", r.HealthText())
	row(b, "Generator", "%s: %s", word(r.Verdict), kept)
	for _, reason := range r.Reasons {
		row(b, "", "- %s", reason)
	}
	b.WriteString("\n")
}

// word returns a verdict as used in a sentence.
func word(v record.Validity) string { return strings.ToLower(string(v)) }

func requests(b *strings.Builder, r *record.Result) {
	sent := number.Thousands(r.Sent) + " sent"
	if r.Unconnected > 0 {
		sent += ", " + number.Thousands(r.Unconnected) + " not (see errors)"
	}
	row(b, "Requests", "%s due, %s, %s answered per second", number.Thousands(r.Due), sent, number.Rate(r.Throughput))
	row(b, "  success", "%s", share(r, r.Success))
	row(b, "  rate limited", "%s", share(r, r.RateLimited))
	row(b, "  shed", "%s", share(r, r.Shed))
	row(b, "  errors", "%s", share(r, r.Errors))
	for _, reason := range byCount(r.ErrorsByReason) {
		row(b, "", "  %s  %s", share(r, r.ErrorsByReason[reason]), reason)
	}
	if r.LastFault != "" {
		row(b, "", "  last: %s", r.LastFault)
	}
	for _, extra := range extras(r) {
		row(b, "", "%s", extra)
	}
	b.WriteString("\n")
}

// extras returns sentences about what is not an outcome.
func extras(r *record.Result) (sentences []string) {
	missed := fmt.Sprintf("missed their time: sent more than 10 ms late (at most %s) through the generator's fault",
		number.Duration(r.PacerLag.Max))
	for _, extra := range []struct {
		count uint64
		text  string
	}{
		{r.Retried, "sent again, because the target had closed an idle connection or not processed them"},
		{r.SentLate, missed},
		{r.Unsent, "due when the test was stopped, not sent"},
		{r.Abandoned, "without an answer when the test was stopped"},
	} {
		if extra.count > 0 {
			sentences = append(sentences, number.Thousands(extra.count)+" "+extra.text)
		}
	}
	return sentences
}

func times(b *strings.Builder, r *record.Result) {
	const columns = "%9s %9s %9s %9s %9s %9s %9s"
	row(b, "", columns, "mean", "p50", "p90", "p95", "p99", "p99.9", "max")
	line := func(word string, s record.Summary) {
		if s.Count > 0 {
			row(b, word, columns, number.Duration(s.Mean), number.Duration(s.P50), number.Duration(s.P90),
				number.Duration(s.P95), number.Duration(s.P99), number.Duration(s.P999), number.Duration(s.Max))
		}
	}
	line("Latency", r.Latency)
	if mixed(r) {
		line("  success", r.LatencySuccess)
		line("  rate limited", r.LatencyRateLimited)
		line("  shed", r.LatencyShed)
		line("  errors", r.LatencyErrors)
	}
	line("Service time", r.ServiceTime)
	line("Lag", r.Lag)
	if r.BusyLag.Count+r.DialLag.Count > 0 {
		line("  generator", r.PacerLag)
		line("  busy", r.BusyLag)
		line("  dial", r.DialLag)
	}
	b.WriteString("\n")
	row(b, "", "latency counts from when a request was due, service time from when it was sent; lag is the difference")
}

func mixed(r *record.Result) bool {
	return max(r.Success, r.RateLimited, r.Shed, r.Errors) < r.Completed
}

func connections(b *strings.Builder, r *record.Result) {
	c := r.Connections
	failed := ""
	if c.Failed > 0 {
		failed = fmt.Sprintf(", %s failed", number.Thousands(c.Failed))
	}
	row(b, "Connections", "%s opened%s, at most %s of %s at a time, on %d event %s",
		number.Thousands(c.Opened), failed, number.Thousands(uint64(c.Peak)), number.Thousands(uint64(c.Max)),
		r.Loops, plural("loop", r.Loops))
}

func thresholds(b *strings.Builder, r *record.Result) {
	for i, t := range r.Thresholds {
		word := ""
		if i == 0 {
			word = "Thresholds"
		}
		held := "held  "
		if !t.Held {
			held = "MISSED"
		}
		row(b, word, "%s  %s %s, is %s", held, t.Name, t.Demand, strconv.FormatFloat(t.Value, 'g', 4, 64))
	}
}

func share(r *record.Result, n uint64) string {
	return fmt.Sprintf("%12s  %5.1f %%", number.Thousands(n), 100*r.Share(n))
}

// byCount returns the keys of m, the greatest count first.
func byCount(m map[string]uint64) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), strings.Compare(a, b))
	})
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
