package main

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/program/service"
)

// Without an experiment bench lists all, each in a line of its own.
func TestUsage(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(usage()), "\n")
	for i, x := range names(func(x experiment) bool { return x.about != "" }) {
		if i+1 >= len(lines) || !strings.HasPrefix(lines[i+1], "  bench "+x+" ") {
			t.Errorf("line %d is not about %s:\n%s", i+2, x, usage())
		}
	}
	exit, ok := errors.AsType[*service.ExitError](run(t.Context(), &service.Env{}))
	if !ok || exit.Status != 2 || exit.Err != nil {
		t.Errorf("it ends with %v, want status 2 and nothing more to say", exit)
	}
}
