package rig

import (
	"fmt"
	"slices"
	"strings"

	"weir/bench/result"
	"weir/internal/service"
)

// inconclusiveStatus is the exit status when nothing was found out.
const inconclusiveStatus = 3

// Inconclusive returns an error when one of the loads was another than the one that
// was asked for: figures that are off then say something about this machine, and
// nothing about the programs under test. The program ends with status 3, and no record
// is kept.
func Inconclusive(loads ...*Loaded) error {
	at := slices.IndexFunc(loads, func(l *Loaded) bool { return l.Verdict == "INVALID" })
	if at < 0 {
		return nil
	}
	return &service.ExitError{Status: inconclusiveStatus, Err: fmt.Errorf(
		"inconclusive: this machine was too busy for the load (%s); run it again with less beside it: %w", strings.Join(loads[at].Reasons, "; "), result.ErrNotKept)}
}
