package rig

import (
	"fmt"
	"slices"
	"strings"

	"weir/bench/result"
	"weir/internal/service"
	"weir/loadgen/record"
)

// Verdicts sums up the verdicts of runs, each with how often.
func Verdicts[T any](runs []T, of func(T) record.Verdict) string {
	count := make(map[record.Verdict]int)
	for _, r := range runs {
		count[of(r)]++
	}
	var said []string
	for _, v := range record.Verdicts() {
		if count[v] > 0 {
			said = append(said, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	return strings.Join(said, ", ")
}

// inconclusiveStatus is the exit status when nothing was found out.
const inconclusiveStatus = 3

// Inconclusive returns an error when one of the loads was another than the one that
// was asked for: figures that are off then say something about this machine, and
// nothing about the programs under test. The program ends with status 3, and no record
// is kept.
func Inconclusive(loads ...*Loaded) error {
	at := slices.IndexFunc(loads, func(l *Loaded) bool { return l.Verdict == record.Invalid })
	if at < 0 {
		return nil
	}
	return &service.ExitError{Status: inconclusiveStatus, Err: fmt.Errorf(
		"inconclusive: this machine was too busy for the load (%s); run it again with less beside it: %w", strings.Join(loads[at].Reasons, "; "), result.ErrNotKept)}
}

// Doubt is Inconclusive for the loads of runs in which something was not as it should be:
// nil when one of these was as planned, as that one proves it.
func Doubt(wrong []*Loaded) error {
	if slices.ContainsFunc(wrong, func(l *Loaded) bool { return Inconclusive(l) == nil }) {
		return nil
	}
	return Inconclusive(wrong...)
}
