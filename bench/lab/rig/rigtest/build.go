// Package rigtest builds programs for tests that use package rig.
package rigtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
