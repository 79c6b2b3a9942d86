package wire

import (
	"bytes"
	"net/netip"
	"testing"

	"weir/internal/net/http1"
)

// What is kept of a large request goes with it; of a usual one the memory serves again.
func TestNoticeForgets(t *testing.T) {
	var n notice
	for _, test := range []struct{ bytes, kept int }{{100, 1}, {noticedMax, 0}} {
		n.keep(&http1.Head{MethodText: []byte("GET"), Target: bytes.Repeat([]byte("x"), test.bytes)}, netip.Addr{})
		n.forget()
		if got := min(1, cap(n.text)); got != test.kept || len(n.part(noticeTarget)) != 0 {
			t.Errorf("of %d bytes, memory of %d is kept", test.bytes, cap(n.text))
		}
	}
}
