package series

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"weir/advisor/codec"
)

func filled(n int, seed uint64) *History {
	r := rand.New(rand.NewPCG(seed, 1))
	h := New()
	at := epoch
	for range n {
		at = at.Add(time.Duration(1+r.IntN(2000)) * time.Second)
		h.Add(at, time.Minute, r.Float64())
	}
	return h
}

// A decoded history is equal, and continues equally.
func TestState(t *testing.T) {
	for _, n := range []int{0, 1, 50, 3000} {
		h := filled(n, 3)
		b := h.Encode()
		back, err := Decode(b)
		if err != nil {
			t.Fatalf("%d rates: %v", n, err)
		}
		newest := h.Newest()
		if n == 0 {
			newest = epoch
		}
		for i := range 100 {
			at := newest.Add(time.Duration(i+1) * time.Minute)
			if !h.Add(at, time.Minute, float64(i)) || !back.Add(at, time.Minute, float64(i)) {
				t.Fatal("a rate is refused")
			}
		}
		if string(h.Encode()) != string(back.Encode()) {
			t.Errorf("%d rates: the histories differ after a hundred more", n)
		}
	}
}

// Any change of the bytes is an error.
func TestStateRefusals(t *testing.T) {
	good := filled(200, 4).Encode()
	bad := map[string][]byte{"empty": nil, "short": good[:8], "cut": good[:len(good)-9],
		"longer": append(append([]byte(nil), good...), 0)}
	for _, i := range []int{0, len(word), len(word) + 3, len(good) / 2, len(good) - 1} {
		b := append([]byte(nil), good...)
		b[i] ^= 4
		bad["a bit differs in byte "+string(rune('0'+i%10))] = b
	}
	for name, b := range bad {
		if _, err := Decode(b); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No bytes cause a panic.
func FuzzState(f *testing.F) {
	good := filled(20, 6).Encode()
	f.Add(good)
	f.Add([]byte(word))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := Decode(b); err == nil {
			h.Add(h.Newest().Add(time.Minute), time.Minute, 1)
			h.Encode()
		}
	})
}
