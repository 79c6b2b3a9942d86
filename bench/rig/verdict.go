package rig

import (
	"fmt"
	"slices"
	"strings"

	"weir/bench/result"
	"weir/internal/service"
	"weir/loadgen/record"
)

// Verdicts counts the verdicts of runs, as in "2 VALID, 1 DEGRADED".
func Verdicts[T any](runs []T, of func(T) record.Verdict) string {
	count := make(map[record.Verdict]int)
	for _, r := range runs {
		count[of(r)]++
	}
	var counts []string
	for _, v := range record.Verdicts() {
		if count[v] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	return strings.Join(counts, ", ")
}

// inconclusiveStatus is the exit status of an inconclusive experiment.
const inconclusiveStatus = 3

// Inconclusive returns an error if one of the loads was not as planned. Figures then describe
// this machine rather than the programs under test. The program ends with status 3, and no
// record is kept.
func Inconclusive(loads ...*Loaded) error {
	at := slices.IndexFunc(loads, func(l *Loaded) bool { return l.Verdict == record.Invalid })
	if at < 0 {
		return nil
	}
	return &service.ExitError{Status: inconclusiveStatus, Err: fmt.Errorf(
		"inconclusive: this machine was too busy for the load (%s); run it again with less other work: %w", strings.Join(loads[at].Reasons, "; "), result.ErrNotKept)}
}

// Doubt is Inconclusive for the loads of runs that missed an expectation. It returns nil if one
// of these loads was as planned, because that run proves the failure.
func Doubt(wrong []*Loaded) error {
	if slices.ContainsFunc(wrong, func(l *Loaded) bool { return Inconclusive(l) == nil }) {
		return nil
	}
	return Inconclusive(wrong...)
}
