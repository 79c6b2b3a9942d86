package deferred_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"weir/proxy/deferred"
)

// What is sealed is read with the key it was written with, under the name it was written under.
func ExampleSealer() {
	s, _ := deferred.NewSealer(bytes.Repeat([]byte{1}, deferred.SealKeyBytes))
	sealed := s.Seal([]byte("Authorization: secret"), []byte("request 1"))
	plain, err := s.Open(sealed, []byte("request 1"))
	fmt.Printf("%s %v\n", plain, err)
	_, err = s.Open(sealed, []byte("request 2"))
	fmt.Println(err)
	// Output:
	// Authorization: secret <nil>
	// it is not encrypted with this key
}

// Keys have one length, and values and digests of one say nothing to who has another.
func TestKeys(t *testing.T) {
	for n, ok := range map[int]bool{0: true, 31: false, 32: true, 33: false} {
		if s, err := deferred.NewSealer(make([]byte, n)); (err == nil) != ok || s.Encrypts() != (n == 32) {
			t.Errorf("of %d bytes: %v, encrypts %v", n, err, s.Encrypts())
		}
	}
	plain, _ := deferred.NewSealer(nil)
	one, _ := deferred.NewSealer(make([]byte, 32))
	other, _ := deferred.NewSealer(bytes.Repeat([]byte{1}, 32))
	for _, value := range [][]byte{nil, []byte("short"), other.Seal([]byte("text"), nil)} {
		if _, err := one.Open(value, nil); !errors.Is(err, deferred.ErrWrongKey) {
			t.Errorf("%q is opened: %v", value, err)
		}
	}
	if d := one.Digest("ab", "c"); d != one.Digest("ab", "c") || d == one.Digest("a", "bc") ||
		d == other.Digest("ab", "c") || d == plain.Digest("ab", "c") {
		t.Errorf("digests are alike that should not be, or are not that should: %x", d)
	}
}
