// Package testkit has what the tests of several packages need: waiting for what must
// happen, collecting logs, connections and requests, programs, certificates.
//
// It imports none of the packages that it helps to test.
package testkit

import (
	"encoding/json"
	"math"
	"net"
	"testing"
	"time"

	"weir/internal/freeport"
)

// Patience is how long a test waits for what must happen before it fails. Nothing
// waits that long unless something is broken.
const Patience = 2 * time.Minute

// Eventually waits until a condition holds. It fails the test after Patience; what
// names the condition.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", Patience, what)
		}
	}
}

// Receive waits for a value, as Eventually does.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(Patience):
		t.Fatalf("waited %v in vain: %s", Patience, what)
		panic("unreachable")
	}
}

// Within is the share by which a figure may miss what is wanted.
type Within float64

// Near fails the test unless got is near want.
func (share Within) Near(t testing.TB, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= float64(share)*math.Abs(want)) { // NaN is not
		t.Errorf("%s is %.5g, want %.5g within %.2g %%", what, got, want, 100*float64(share))
	}
}

// JSON is v as JSON, for comparisons.
func JSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// FreeAddr is a free address on 127.0.0.1, each time another.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// FreePort is the port of a FreeAddr.
func FreePort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Env is an environment of names and values in turn; of those given twice the first
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
