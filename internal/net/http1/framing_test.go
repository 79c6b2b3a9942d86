package http1

import (
	"math"
	"testing"
)

// TestFraming has the rows in the order of framing's comment.
func TestFraming(t *testing.T) {
	const none, huge = -1, math.MaxInt64
	req := func(minor int, fields ...string) framed { return framedBy(framed{minor: minor}, fields) }
	resp := func(method Method, status int, fields ...string) framed {
		return framedBy(framed{response: true, minor: 1, method: method, status: status}, fields)
	}
	for _, c := range []struct {
		name   string
		in     framed
		kind   Framing
		length int64
		fault  fault
	}{
		{"two equal lengths", req(1, "l5", "l5"), 0, none, faultLengthTwice},
		{"two lengths", req(1, "l5", "l6"), 0, none, faultLengthTwice},
		{"two lengths, the last invalid", req(1, "l5", "lx"), 0, none, faultLength},
		{"two lengths, no body anyway", resp(GET, 304, "l5", "l6"), 0, none, faultLengthTwice},
		{"list of lengths", req(1, "l5, 5"), 0, none, faultLength},
		{"empty length", req(1, "l"), 0, none, faultLength},
		{"signed length", req(1, "l+5"), 0, none, faultLength},
		{"negative length", req(1, "l-5"), 0, none, faultLength},
		{"hexadecimal length", req(1, "l0x5"), 0, none, faultLength},
		{"length with space inside", req(1, "l5 5"), 0, none, faultLength},
		{"length with point", req(1, "l5.0"), 0, none, faultLength},
		{"largest length", req(1, "l9223372036854775807"), BodyLength, huge, 0},
		{"larger by one", req(1, "l9223372036854775808"), 0, none, faultLengthTooLarge},
		{"larger by ten", req(1, "l9223372036854775817"), 0, none, faultLengthTooLarge},
		{"2^64", req(1, "l18446744073709551616"), 0, none, faultLengthTooLarge},
		{"2^64 with zeros", req(1, "l00018446744073709551617"), 0, none, faultLengthTooLarge},
		{"length and coding", req(1, "l5", "cchunked"), 0, none, faultLengthAndCoding},
		{"length and coding, answer to HEAD", resp(HEAD, 200, "l5", "cchunked"), 0, none, faultLengthAndCoding},
		{"coding in HTTP/1.0", req(0, "cchunked"), 0, none, faultCodingVersion},
		{"coding twice", req(1, "cchunked", "cchunked"), 0, none, faultCodingNotFinal},
		{"empty coding", req(1, "c"), 0, none, faultCodingNotFinal},
		{"chunked not last", req(1, "cchunked, gzip"), 0, none, faultCodingNotFinal},
		{"chunked twice in a list", req(1, "cchunked, chunked"), 0, none, faultCodingNotFinal},
		{"chunked and nothing", req(1, "cchunked,"), 0, none, faultCodingNotFinal},
		{"chunked last", req(1, "cgzip, chunked"), 0, none, faultCoding},
		{"unknown coding", req(1, "cx"), 0, none, faultCoding},
		{"identity", req(1, "cidentity"), 0, none, faultCoding},
		{"chunked with parameter", req(1, "cchunked;q=1"), 0, none, faultCoding},
		{"quoted chunked", req(1, `c"chunked"`), 0, none, faultCoding},
		{"interim", resp(GET, 100, "l5"), BodyNone, none, 0},
		{"interim with chunks", resp(GET, 103, "cchunked"), BodyNone, none, 0},
		{"204", resp(GET, 204, "l5"), BodyNone, none, 0},
		{"304", resp(GET, 304, "l5"), BodyNone, 5, 0},
		{"304 with chunks", resp(GET, 304, "cchunked"), BodyNone, none, 0},
		{"answer to HEAD", resp(HEAD, 200, "l5"), BodyNone, 5, 0},
		{"answer to HEAD without length", resp(HEAD, 200), BodyNone, none, 0},
		{"2xx to CONNECT", resp(CONNECT, 200, "l5"), BodyNone, none, 0},
		{"3xx to CONNECT", resp(CONNECT, 300, "l5"), BodyLength, 5, 0},
		{"chunked request", req(1, "cchunked"), BodyChunked, none, 0},
		{"chunked in capitals", req(1, "cCHUNKED"), BodyChunked, none, 0},
		{"chunked in HTTP/1.2", req(2, "cchunked"), BodyChunked, none, 0},
		{"chunked response", resp(GET, 200, "cchunked"), BodyChunked, none, 0},
		{"length of request", req(0, "l5"), BodyLength, 5, 0},
		{"length zero", req(1, "l0"), BodyLength, 0, 0},
		{"leading zeros", req(1, "l0000000000000000000000005"), BodyLength, 5, 0},
		{"length of response", resp(GET, 200, "l5"), BodyLength, 5, 0},
		{"request without either", req(1), BodyNone, none, 0},
		{"response without either", resp(GET, 200), BodyUntilClose, none, 0},
		{"205 without either", resp(GET, 205), BodyUntilClose, none, 0},
	} {
		kind, length, f := c.in.framing()
		if kind != c.kind || length != c.length || f != c.fault {
			t.Errorf("%s: framing %d, length %d, %q; want %d, %d, %q", c.name,
				kind, length, requestErrors[f].Reason, c.kind, c.length, requestErrors[c.fault].Reason)
		}
	}
}

// framedBy adds fields to m: "l" and a Content-Length, "c" and a
// Transfer-Encoding.
func framedBy(m framed, fields []string) framed {
	for _, f := range fields {
		if f[0] == 'l' {
			m.length, m.lengths = []byte(f[1:]), m.lengths+1
		} else {
			m.coding, m.codings = []byte(f[1:]), m.codings+1
		}
	}
	return m
}
