package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"

	"github.com/goccy/go-json"

	"weir/internal/data/chart"
	"weir/internal/data/number"
	"weir/loadgen/record"
)

// pageText is the template of the report.
//
//go:embed page.html
var pageText string

// peaksShown bounds the peaks in the table.
const peaksShown = 100

// A page is the data of the template. What is computed from the result is inserted by functions.
type page struct {
	*record.Result
	Peaks    []record.Peak // the first of those of the result
	MorePeak int
}

// A fact is a line about the run.
type fact struct{ Name, Value string }

// A spreadRow is a row of the table of percentiles.
type spreadRow struct {
	Name   string
	Spread record.Summary
}

// A countRow is a row of the table of outcomes.
type countRow struct {
	Name, Count, Share string
	Part               bool // of the row above
}

// HTML returns the result as a self-contained page without scripts.
func HTML(r *record.Result) ([]byte, error) {
	return chart.RenderPage(pageText, template.FuncMap{
		"word": word, "facts": facts, "figures": figures, "spreads": spreads, "causes": causes,
		"outcomes": outcomeRows, "counts": counts, "extras": extras, "plots": plots, "config": config,
	}, page{r, r.Peaks[:min(len(r.Peaks), peaksShown)], max(0, len(r.Peaks)-peaksShown)})
}

func config(r *record.Result) (string, error) {
	text, err := json.MarshalIndentWithOption(r.Config, "", "  ", json.DisableHTMLEscape())
	return string(text), err
}

func facts(r *record.Result) []fact {
	all := []fact{
		{"Target", r.URL}, {"Profile", r.Profile}, {"Duration", number.Duration(r.Duration)},
		{"Started", r.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC")},
	}
	if r.End == record.EndStopped {
		all = append(all, fact{"Stopped", "after " + number.Duration(r.Elapsed)})
	}
	if shards := shardsOf(r); shards != "" {
		all = append(all, fact{"Shards", shards})
	}
	if r.ScheduleHash != "" {
		all = append(all, fact{"Schedule", r.ScheduleHash})
	}
	c := r.Connections
	return append(all,
		fact{"Connections", fmt.Sprintf("at most %s of %s at a time, %s opened", number.Thousands(uint64(c.Peak)),
			number.Thousands(uint64(c.Max)), number.Thousands(c.Opened))},
		fact{"Event loops", strconv.Itoa(r.Loops)})
}

func figures(r *record.Result) []chart.Stat {
	share := func(n uint64) string { return fmt.Sprintf("%.1f %%", 100*r.Share(n)) }
	missed := number.Thousands(r.SentLate) + " requests missed their time"
	lag := chart.Stat{"Lag p99", number.Duration(r.Lag.P99), missed, "violet"}
	if r.Lag.Count == 0 {
		lag.Value, lag.Note = "–", "no connection was available"
	}
	return []chart.Stat{
		{"Sent", number.Rate(r.SentRps) + "/s", "of " + number.Rate(r.TargetRps) + "/s asked", "blue"},
		{"Success", share(r.Success), number.Thousands(r.Success), "green"},
		{"Rate limited", share(r.RateLimited), number.Thousands(r.RateLimited), "amber"},
		{"Shed", share(r.Shed), number.Thousands(r.Shed), "violet"},
		{"Errors", share(r.Errors), number.Thousands(r.Errors), "red"},
		{"Latency p50", number.Duration(r.Latency.P50), "mean " + number.Duration(r.Latency.Mean), ""},
		{"Latency p99", number.Duration(r.Latency.P99), "max " + number.Duration(r.Latency.Max), ""},
		{"Throughput", number.Rate(r.Throughput) + "/s", "answered until the end", ""},
		lag,
	}
}

func spreads(r *record.Result) []spreadRow {
	rows := []spreadRow{{"Latency", r.Latency}}
	if mixed(r) {
		rows = append(rows, spreadRow{"of success", r.LatencySuccess}, spreadRow{"of rate limited", r.LatencyRateLimited},
			spreadRow{"of shed", r.LatencyShed}, spreadRow{"of errors", r.LatencyErrors})
	}
	return withCounts(append(rows, spreadRow{"Service time", r.ServiceTime}, spreadRow{"Lag", r.Lag}))
}

func causes(r *record.Result) []spreadRow {
	return withCounts([]spreadRow{
		{"the generator was late while connections were idle", r.PacerLag},
		{"waited for a busy connection", r.BusyLag}, {"waited for a new connection", r.DialLag},
	})
}

func withCounts(rows []spreadRow) []spreadRow {
	return slices.DeleteFunc(rows, func(s spreadRow) bool { return s.Spread.Count == 0 })
}

func outcomeRows(r *record.Result) []countRow {
	rows := []countRow{
		countOf(r, "Success", r.Success), countOf(r, "Rate limited (429)", r.RateLimited),
		countOf(r, "Shed (503 of a gate)", r.Shed), countOf(r, "Errors", r.Errors),
	}
	return append(rows, counts(r, r.ErrorsByReason)...)
}

// counts returns rows for the parts of the rows above, the greatest first.
func counts(r *record.Result, parts map[string]uint64) (rows []countRow) {
	for _, name := range byCount(parts) {
		row := countOf(r, name, parts[name])
		row.Part = true
		rows = append(rows, row)
	}
	return rows
}

func countOf(r *record.Result, name string, n uint64) countRow {
	return countRow{Name: name, Count: number.Thousands(n), Share: fmt.Sprintf("%.2f %%", 100*r.Share(n))}
}
