// Package resulttest provides checks for tests of experiments.
package resulttest

import (
	"errors"
	"strings"
	"testing"

	"weir/bench/lab/result"
	"weir/internal/program/service"
)

// RequireMissed checks what was missed in a case: something with want in it, or nothing if want is empty.
func RequireMissed(t testing.TB, name string, e *result.Expectations, want string) {
	t.Helper()
	if missed := strings.Join(e.Missed(), "; "); (missed == "") != (want == "") || !strings.Contains(missed, want) {
		t.Errorf("%s: missed %q, want %q", name, missed, want)
	}
}

// RequireError checks the error of a case: one with want in it, or none if want is empty.
func RequireError(t testing.TB, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: ended with %v, want %q", name, err, want)
	}
}

// RequireExit checks that an error is one with an exit status and with want in it.
func RequireExit(t testing.TB, name string, err error, status int, want string) {
	t.Helper()
	exit, ok := errors.AsType[*service.ExitError](err)
	if !ok || exit.Status != status || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: ended with %v, want status %d and %q", name, err, status, want)
	}
}
