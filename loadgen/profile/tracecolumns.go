package profile

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// An unknown column of a table has a name that is not in the lists of names. It is ignored,
// unless its content shows that it should have been one of them.
type unknown struct {
	index int
	name  string
	says  content
}

// A content is what all non-empty fields of a column are.
type content uint8

const (
	nothing  content = iota
	amounts          // numbers, possibly with a unit
	instants         // times that are no numbers
	various
)

// amount matches a number, and the unit that dashboards write after it.
var amount = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?( ?[A-Za-zµ/%]{1,10})?$`)

func contentOf(field string) content {
	field = strings.TrimSpace(field)
	if field == "" {
		return nothing
	}
	if _, ok := parseNumber(field); ok || amount.MatchString(field) {
		return amounts
	}
	if _, ok := parseTime(field); ok {
		return instants
	}
	return various
}

// unknownColumns returns the columns of a header that t does not use.
func (t *table) unknownColumns(header []string) (all []unknown) {
	for i, name := range header {
		if i != t.time && i != t.value {
			all = append(all, unknown{index: i, name: strings.TrimSpace(name)})
		}
	}
	return all
}

// look notes what a row has in the columns that are ignored.
func (t *table) look(fields []string) {
	for i := range t.unknown {
		u := &t.unknown[i]
		if u.says == various {
			continue
		}
		switch c := contentOf(fields[u.index]); {
		case c == nothing || c == u.says:
		case u.says == nothing:
			u.says = c
		default:
			u.says = various
		}
	}
}

// misread reports that ignoring a column gave the table another meaning: that of a list of
// requests to samples at even times, or that of a row per second to rows with times.
func (t *table) misread() error {
	switch {
	case t.time < 0:
		if names := t.unknownWith(instants); names != "" {
			return fmt.Errorf("line 1: %s contains times and has no known name; allowed: %s", names,
				strings.Join(timeColumns, ", "))
		}
	case t.trace.kind == kindArrivals && even(t.trace.rows):
		if names := t.unknownWith(amounts); names != "" {
			return fmt.Errorf(
				"line 1: %s contains numbers at even times and has no known name; allowed: %s for rates, %s for counts, "+
					"or no such column if each line is one request", names, strings.Join(rateColumns, ", "),
				strings.Join(countColumns, ", "))
		}
	}
	return nil
}

// unknownWith names the unknown columns with a content.
func (t *table) unknownWith(c content) string {
	var names []string
	for _, u := range t.unknown {
		if u.says == c {
			names = append(names, fmt.Sprintf("%.100q", u.name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "column " + strings.Join(names, ", ")
}

// even reports whether rows are samples: in order, most of them one step apart, and the others
// several steps. Requests are not: they are at any time, several in one second, or few.
func even(rows []row) bool {
	if len(rows) < 3 {
		return false
	}
	step := time.Duration(0)
	for i := range rows[1:] {
		if d := (rows[i+1].at - rows[i].at).Abs(); step == 0 || d < step {
			step = d
		}
	}
	single, up := 0, 0
	for i := range rows[1:] {
		d := rows[i+1].at - rows[i].at
		if step == 0 || d%step != 0 {
			return false
		}
		if d > 0 {
			up++
		}
		if d.Abs() == step {
			single++
		}
	}
	return (up == 0 || up == len(rows)-1) && 2*single > len(rows)-1
}
