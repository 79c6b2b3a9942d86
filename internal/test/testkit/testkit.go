// Package testkit supports the tests of several packages: it waits for conditions, collects
// logs, and provides connections, requests, programs and certificates.
//
// It imports none of the packages that it helps to test.
package testkit

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/test/freeport"
)

// Timeout bounds all waits of tests. Only a test that fails waits that long.
const Timeout = 2 * time.Minute

// Eventually waits until a condition holds, and fails the test after Timeout. what
// describes the condition.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Timeout); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for: %s", Timeout, what)
		}
	}
}

// Receive waits for a value, as Eventually does.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(Timeout):
		t.Fatalf("waited %v for: %s", Timeout, what)
		panic("unreachable")
	}
}

// Tolerance is the allowed relative deviation of a figure.
type Tolerance float64

// Near fails the test unless got is near want.
func (share Tolerance) Near(t testing.TB, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= float64(share)*math.Abs(want)) { // NaN is not
		t.Errorf("%s is %.5g, want %.5g within %.2g %%", what, got, want, 100*float64(share))
	}
}

// JSON returns v as JSON, for comparisons.
func JSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Must returns the value of a call that must succeed, as in Must(os.ReadFile(name))(t).
func Must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Contains checks that a text has all parts.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	lacks := slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return strings.Contains(text, part) })
	if len(lacks) > 0 {
		t.Errorf("%q is missing in\n%.20000s", lacks, text)
	}
}

// WriteFile writes a file.
func WriteFile(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FreeAddr returns a free address on 127.0.0.1, each time another one.
func FreeAddr(t testing.TB) string {
	t.Helper()
	return Must(freeport.Addr())(t)
}

// FreePort returns the port of a FreeAddr.
func FreePort(t testing.TB) string {
	t.Helper()
	_, port, _ := strings.Cut(FreeAddr(t), ":")
	return port
}

// Env returns an environment from alternating names and values. Of duplicates the first
// counts.
func Env(pairs []string) func(name string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}
