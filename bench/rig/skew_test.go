package rig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// The clock of a program that is built so is off by as much as it is told.
func TestSkewed(t *testing.T) {
	out := filepath.Join(t.TempDir(), "clock")
	if err := BuildSkewed(context.Background(), "./testdata/clock", out); err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{0, 500 * time.Millisecond, 999 * time.Millisecond} {
		cmd := exec.Command(out)
		cmd.Env = append(os.Environ(), Skewed(by))
		before := time.Now()
		said, err := cmd.Output()
		after := time.Now()
		n, parseErr := strconv.ParseInt(string(said), 10, 64)
		if err != nil || parseErr != nil {
			t.Fatal(err, parseErr)
		}
		if told := time.Unix(0, n).Add(-by); told.Before(before.Round(0)) || told.After(after.Round(0)) {
			t.Errorf("off by %v: %v, and it is between %v and %v", by, told, before, after)
		}
	}
}
