package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A board is one dashboard. In its expressions @ stands for the labels that the
// reader has chosen, [~] for the span that suits the resolution.
type board struct {
	name        string // of the file, and in links
	title       string
	description string
	probe       string // a metric of the program: its labels are offered for choice
	rows        []row
}

// A row is panels under a title, laid out from left to right.
type row struct {
	title  string
	panels []panel
}

// A panel is one picture.
type panel struct {
	title       string
	description string
	kind        kind
	unit        unit
	width       int // of 24; 0: what suits the kind
	stacked     bool
	top         float64 // of the axis; 0: as needed
	steps       []step  // what is fine, what is not
	queries     []query
}

// A query is one expression, and how what it yields is called.
type query struct {
	expr   string
	legend string
}

// A step colours values from a bound on.
type step struct {
	from  float64
	color string
}

// A kind is how a panel shows its values.
type kind string

const (
	lines kind = "timeseries" // the course over time
	now   kind = "stat"       // the values now, with a small course behind them
	words kind = "stat/name"  // the names of the series that there are now
	bars  kind = "bargauge"   // the values now, one below the other
)

// A unit is Grafana's name of one.
type unit string

const (
	perSecond unit = "reqps"
	events    unit = "cps"
	seconds   unit = "s"
	share     unit = "percentunit"
	count     unit = "short"
	size      unit = "bytes"
	cores     unit = "none"
)

// good is what is green up to warn, amber up to bad, then red.
func good(warn, bad float64) []step {
	return []step{{warn, "orange"}, {bad, "red"}}
}

// needed is what is red below least.
func needed(warn, least float64) []step {
	return []step{{-1, "red"}, {least, "orange"}, {warn, "green"}}
}

// mean is the mean of a histogram by labels; filter goes on from the labels
// chosen.
func mean(metric, filter, by string) string {
	return grouped("rate("+metric+"_sum{@"+filter+"}[~])", by) + " / " + grouped("rate("+metric+"_count{@"+filter+"}[~])", by)
}

// quantile is a quantile of a histogram by labels.
func quantile(q, metric, filter, by string) string {
	le := "le"
	if by != "" {
		le = by + ", le"
	}
	return "histogram_quantile(" + q + ", " + grouped("rate("+metric+"_bucket{@"+filter+"}[~])", le) + ")"
}

func grouped(expr, by string) string {
	if by == "" {
		return "sum(" + expr + ")"
	}
	return "sum by (" + by + ") (" + expr + ")"
}

// unchosen is an expression over programs that the board offers no choice of.
func unchosen(expr string) string {
	return strings.NewReplacer("{@}", "", "{@, ", "{").Replace(expr)
}

// file is the name of the board's file.
func (b board) file() string { return b.name + ".json" }

// expand writes an expression as Grafana takes it.
func expand(expr string) string {
	chosen := `job=~"$job", instance=~"$instance"`
	return strings.NewReplacer("{@", "{"+chosen, "[~]", "[$__rate_interval]").Replace(expr)
}

// render returns the board as JSON.
func (b board) render() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(b.model())
	return out.Bytes(), err
}
