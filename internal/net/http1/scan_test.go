package http1

import (
	"bytes"
	"testing"
)

// TestControlAt compares with the plain definition, at all places in a word.
func TestControlAt(t *testing.T) {
	isControl := func(c int) bool { return c < ' ' && c != '\t' || c == 0x7f }
	for c := range 256 {
		for at := range 20 {
			b := []byte("\x80\xffaz !~\t0123456789\xa0\x81x")[:20]
			b[at] = byte(c)
			want := len(b)
			if isControl(c) {
				want = at
			}
			if got := controlAt(b); got != want {
				t.Fatalf("controlAt(%q) = %d, want %d", b, got, want)
			}
		}
	}
}

// TestSlowInputIsReadOnce spoils what has been looked at of a long line: a
// Reader that does not look again until the line is complete does not notice.
func TestSlowInputIsReadOnce(t *testing.T) {
	const before = "GET / HTTP/1.1\r\nHost: a\r\nLong: "
	in := append([]byte(before), bytes.Repeat([]byte("x"), 1000)...)
	r := NewRequestReader(nil)
	var h Head
	for n := 1; n < len(in); n++ {
		if ev, err := r.Next(in[:n], &h); err != nil || ev.N != 0 {
			t.Fatalf("after %d bytes: %+v, %v", n, ev, err)
		}
		if n > len(before)+2 {
			in[n-2] = 0 // the last byte may be a CR and is looked at again
		}
	}
}
