package rig

import (
	"fmt"
	"slices"
	"strings"
)

// verdicts are what the load generator says of its own runs, from good to bad.
var verdicts = []string{"VALID", "DEGRADED", "INVALID"}

// WorseVerdict reports whether one verdict is worse than another.
func WorseVerdict(one, other string) bool {
	return slices.Index(verdicts, one) > slices.Index(verdicts, other)
}

// Verdicts sums up the verdicts of runs, each with how often.
func Verdicts[T any](runs []T, of func(T) string) string {
	count := make(map[string]int)
	for _, r := range runs {
		count[of(r)]++
	}
	var said []string
	for _, v := range verdicts {
		if count[v] > 0 {
			said = append(said, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	return strings.Join(said, ", ")
}
