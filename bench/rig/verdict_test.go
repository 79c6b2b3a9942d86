package rig

import (
	"testing"

	"weir/loadgen/record"
)

func TestVerdicts(t *testing.T) {
	same := func(v record.Verdict) record.Verdict { return v }
	if got := Verdicts([]record.Verdict{"VALID", "INVALID", "VALID"}, same); got != "2 VALID, 1 INVALID" {
		t.Errorf("verdicts %q", got)
	}
	if record.Worse("", "VALID") != "VALID" || record.Worse("INVALID", "VALID") != "INVALID" || record.Worse("VALID", "DEGRADED") != "DEGRADED" {
		t.Error("verdicts are out of order")
	}
}
