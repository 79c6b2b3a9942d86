package result

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Ratio compares two programs in the same run. Unlike absolute figures, ratios can be
// compared between runs.
type Ratio struct {
	Name                string // heading, row and column
	Median, Least, Most float64
	LessIsBetter        bool
}

// ratioCell matches a ratio in a table: the median of pairs with minimum and maximum.
var ratioCell = regexp.MustCompile(`^\*\*([0-9.]+)\*\* \(([0-9.]+) … ([0-9.]+)\)$`)

// Ratios returns the ratios in a record's tables.
func (r *Record) Ratios() (all []Ratio) {
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			for _, row := range t.Rows {
				all = append(all, ratiosIn(s.Heading, t, row)...)
			}
		}
	}
	return all
}

func ratiosIn(heading string, t Table, row []string) (all []Ratio) {
	for i := range min(len(row), len(t.Columns)) {
		m := ratioCell.FindStringSubmatch(row[i])
		if m == nil {
			continue
		}
		about := about(t, row, i)
		ratio := Ratio{Name: heading + ": " + about, LessIsBetter: costs(about)}
		ratio.Median, _ = strconv.ParseFloat(m[1], 64)
		ratio.Least, _ = strconv.ParseFloat(m[2], 64)
		ratio.Most, _ = strconv.ParseFloat(m[3], 64)
		all = append(all, ratio)
	}
	return all
}

// about names a cell by its row and column. A column that is only called "ratio" refers to
// the figure to its left, so it gets that column's name.
func about(t Table, row []string, column int) string {
	switch {
	case column == 0:
		return t.Columns[0]
	case strings.HasPrefix(t.Columns[column], "ratio") && column > 1:
		column--
	}
	return row[0] + ", " + t.Columns[column]
}

// costs reports whether less of a figure is better.
func costs(about string) bool {
	return slices.ContainsFunc([]string{"CPU", "µs", " ms", "bytes", "memory"},
		func(word string) bool { return strings.Contains(about, word) })
}

// slack is the share by which a median may be worse than the worst pair of the previous run
// before it is reported. The spread of the pairs shows how much runs differ.
const slack = 0.05

// Regressions describes the ratios of now that are worse than in before.
func Regressions(before, now *Record) (list []string) {
	old := make(map[string]Ratio)
	for _, r := range before.Ratios() {
		old[r.Name] = r
	}
	for _, r := range now.Ratios() {
		was, known := old[r.Name]
		if !known {
			continue
		}
		worse := r.Median < was.Least*(1-slack)
		if r.LessIsBetter {
			worse = r.Median > was.Most*(1+slack)
		}
		if worse {
			list = append(list, fmt.Sprintf("%s: %.2f, was %.2f (%.2f … %.2f) at commit %s", r.Name, r.Median, was.Median,
				was.Least, was.Most, before.Commit))
		}
	}
	return list
}
