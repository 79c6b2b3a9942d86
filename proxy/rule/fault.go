package rule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Fault is one thing wrong with a file or a setting.
type Fault struct {
	Line    int    // of the file, from 1; 0 where there is no file
	Path    string // as in rules[2].match.path; empty for the whole
	Message string // what is allowed and what was found
}

// Error returns "line 7: path: message" without what is not known.
func (f Fault) Error() string {
	var b strings.Builder
	if f.Line > 0 {
		b.WriteString("line " + strconv.Itoa(f.Line) + ": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults is all that is wrong, in the order of lines; as an error it is never
// empty.
type Faults []Fault

// faultsMax is how many faults are told of one file; of the others their number
// is.
const faultsMax = 100

// Error returns all faults, separated by semicolons.
func (f Faults) Error() string {
	words := make([]string, len(f))
	for i, fault := range f {
		words[i] = fault.Error()
	}
	return strings.Join(words, "; ")
}

// A judge collects faults while a file is read.
//
// Owned by one call of a reading function.
type judge struct {
	faults      Faults
	further     int               // beyond faultsMax
	unknown     func(Fault)       // as in Options
	hasTemplate func(string) bool // likewise
	notes       Faults            // of what is allowed and has no effect; at most faultsMax
}

// fault notes what is wrong with what stands at a line and path.
func (j *judge) fault(line int, path, format string, args ...any) {
	if len(j.faults) == faultsMax {
		j.further++
		return
	}
	j.faults = append(j.faults, Fault{line, path, fmt.Sprintf(format, args...)})
}

// note notes what has no effect.
func (j *judge) note(line int, path, format string, args ...any) {
	if len(j.notes) < faultsMax {
		j.notes = append(j.notes, Fault{line, path, fmt.Sprintf(format, args...)})
	}
}

// verdict returns the faults as an error, nil when there are none.
func (j *judge) verdict() error {
	if len(j.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(j.faults, func(a, b Fault) int { return a.Line - b.Line })
	if j.further > 0 {
		j.faults = append(j.faults, Fault{Message: fmt.Sprintf("and %d more", j.further)})
	}
	return j.faults
}
