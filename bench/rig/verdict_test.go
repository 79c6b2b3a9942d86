package rig

import "testing"

func TestVerdicts(t *testing.T) {
	same := func(v string) string { return v }
	if got := Verdicts([]string{"VALID", "INVALID", "VALID"}, same); got != "2 VALID, 1 INVALID" {
		t.Errorf("verdicts %q", got)
	}
	if Worse("", "VALID") != "VALID" || Worse("INVALID", "VALID") != "INVALID" || Worse("VALID", "DEGRADED") != "DEGRADED" {
		t.Error("verdicts are out of order")
	}
}
