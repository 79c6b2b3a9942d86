// Package rigtest builds programs and runs experiments for tests.
package rigtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// Build builds some of our programs where rig.Binary looks for them: beside the
// test that runs.
func Build(t *testing.T, programs ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		build := exec.Command("go", "build", "-o", filepath.Join(filepath.Dir(self), name), "weir/"+name)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
}

// Run plays an experiment and returns what it printed.
func Run(t *testing.T, play func(l *rig.Lab)) (printed string, err error) {
	t.Helper()
	var out strings.Builder
	l := &rig.Lab{Report: &result.Report{Out: &out}}
	err = l.Run(t.Context(), func() { play(l) })
	return out.String(), err
}
