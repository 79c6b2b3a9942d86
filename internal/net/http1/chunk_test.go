package http1_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/internal/test/testkit"
)

func TestChunkSizes(t *testing.T) {
	const ok = ""
	for _, c := range []struct{ line, reason string }{
		{"1", ok}, {"01", ok}, {"0000000000000001", ok}, {"00000000000000001", "the chunk size is too large"},
		{"", "the chunk size is not valid"}, {"+1", "the chunk size is not valid"}, {"-1", "the chunk size is not valid"},
		{"0x1", "the chunk size is not valid"}, {"1h", "the chunk size is not valid"}, {"g", "the chunk size is not valid"},
		{"1_0", "the chunk size is not valid"}, {" 1", "the chunk size is not valid"}, {"1.0", "the chunk size is not valid"},
		{"\"1\"", "the chunk size is not valid"}, {"1,1", "the chunk size is not valid"},
		{"\x801", "the chunk size is not valid"},
		{"1 ", "a chunk extension is not valid"}, {"1\t", "a chunk extension is not valid"},
		{"1 1", "a chunk extension is not valid"},
		{"8000000000000000", "the chunk size is too large"}, {"ffffffffffffffff", "the chunk size is too large"},
		{"10000000000000001", "the chunk size is too large"}, {strings.Repeat("0", 100) + "1", "the chunk size is too large"},
		{"1;a", ok}, {"1;a=b", ok}, {"1 ; a = b", ok}, {"1;a;b=c;d", ok}, {"1;a=\"b;c\\\"d\"", ok}, {"1;a=\"\"", ok},
		{"1;a=\"b\";c", ok},
		{"1\t;\ta", ok}, {"1;a=\"\x80\"", ok},
		{"1;", "a chunk extension is not valid"}, {"1;;", "a chunk extension is not valid"},
		{"1;a;", "a chunk extension is not valid"},
		{"1;=b", "a chunk extension is not valid"}, {"1;a=", "a chunk extension is not valid"},
		{"1;a= ", "a chunk extension is not valid"},
		{"1;a=b ", "a chunk extension is not valid"}, {"1;a ", "a chunk extension is not valid"},
		{"1;a b", "a chunk extension is not valid"},
		{"1;a=b c", "a chunk extension is not valid"}, {"1;a=\"b", "a chunk extension is not valid"},
		{"1;a=\"b\\\"", "a chunk extension is not valid"},
		{"1;a=\"b\"c", "a chunk extension is not valid"}, {"1;a=\"b\\", "a chunk extension is not valid"},
		{"1;\"a\"", "a chunk extension is not valid"},
		{"1;a=\x80", "a chunk extension is not valid"}, {"1;a==b", "a chunk extension is not valid"},
		{"1;\x00", "a control character"}, {"1;a\x7f", "a control character"}, {"1\r", "a CR without LF"},
		{"1\n", "an LF without CR"},
		{"1;a\n1", "an LF without CR"},
	} {
		m, err := readOne(t, http1test.Conversation{}, teHead+c.line+"\r\nx\r\n0\r\n\r\n")
		if reason(err) != c.reason {
			t.Errorf("%q: %v, want %q", c.line, err, c.reason)
		}
		if c.reason == ok && (m.Body != "x" || !m.Complete) {
			t.Errorf("%q: %s", c.line, &m)
		}
	}
}

// TestLargestChunk sees that the largest size does not overflow and that
// nothing is made for it.
func TestLargestChunk(t *testing.T) {
	m, err := readOne(t, http1test.Conversation{}, teHead+"7FFFffffFFFFffff\r\nab")
	if err != nil || m.Body != "ab" || m.Complete {
		t.Errorf("%v, %s", err, &m)
	}
}

func TestChunkEnds(t *testing.T) {
	for _, c := range []struct{ in, reason string }{
		{"1\r\nx\r\n0\r\n\r\n", ""},
		{"1\r\nx0\r\n\r\n", "no CRLF at the end of a chunk"},
		{"1\r\nx\n0\r\n\r\n", "no CRLF at the end of a chunk"},
		{"1\r\nx\r0\r\n\r\n", "no CRLF at the end of a chunk"},
		{"1\r\nx\r\r\n0\r\n\r\n", "no CRLF at the end of a chunk"},
		{"1\r\nx\r\n\r\n0\r\n\r\n", "the chunk size is not valid"},
		{"2\r\nx\r\n0\r\n\r\n", "no CRLF at the end of a chunk"},
		{"1\r\nx\r\n0\r\n\n", "an LF without CR"},
		{"1\r\nx\r\n0\n\r\n", "an LF without CR"},
	} {
		if _, err := readOne(t, http1test.Conversation{}, teHead+c.in); reason(err) != c.reason {
			t.Errorf("%q: %v, want %q", c.in, err, c.reason)
		}
	}
}

// TestTrailers sees that trailers are held to the rules of fields and have no
// effect, least of all on framing, and are apart from the fields of the head.
func TestTrailers(t *testing.T) {
	for _, c := range []struct{ lines, reason string }{
		{"", ""}, {"A: b\r\n", ""}, {"A:\r\nB: \t\r\n", ""},
		{"Content-Length: 5\r\nTransfer-Encoding: x\r\nHost: b\r\nHost: c\r\nConnection: close\r\n", ""},
		{"A\r\n", "a field line without colon"}, {"A : b\r\n", "whitespace in a field name or before its colon"},
		{": b\r\n", "a field without name"}, {"A: b\r\n c\r\n", "a field line begins with whitespace"},
		{" A: b\r\n", "a field line begins with whitespace"}, {"A(: b\r\n", "a field name is not a token"},
		{"A: b\n", "an LF without CR"}, {"A: b\rc\r\n", "a CR without LF"}, {"A: \x00\r\n", "a control character"},
	} {
		in := teHead + "1\r\nx\r\n0\r\n" + c.lines + "\r\n" + getHead
		got := testkit.Must(new(http1test.Conversation).ReadAllWays([]byte(in)))(t)
		if reason(got.Err) != c.reason {
			t.Errorf("%q: %v, want %q", c.lines, got.Err, c.reason)
		}
		if c.reason == "" && (len(got.Messages) != 2 || len(got.Messages[0].Head.Fields) != 2 || !got.Idle ||
			got.Messages[0].Trailers != c.lines) {
			t.Errorf("%q: %s", c.lines, got)
		}
	}
}

// TestTooManyTrailers sees that a section with more fields than a head may have is dropped.
func TestTooManyTrailers(t *testing.T) {
	for n, want := range map[int]int{20: 20, 21: 0} {
		m, err := readOne(t, http1test.Conversation{Limits: &http1.Limits{Fields: 4}},
			teHead+"0\r\n"+strings.Repeat("A: b\r\n", n)+"\r\n")
		if got := strings.Count(m.Trailers, "\n"); err != nil || !m.Complete || got != want {
			t.Errorf("of %d trailers there are %d, %v", n, got, err)
		}
	}
}

// TestMayBeTrailer names fields that pass in trailers, and those that do not.
func TestMayBeTrailer(t *testing.T) {
	for name, want := range map[string]bool{"grpc-status": true, "Grpc-Message": true, "Server-Timing": true,
		"Content-Digest": true, "X-A": true, "If": true,
		"Content-Length": false, "Transfer-Encoding": false, "Host": false, "Connection": false, "TE": false,
		"Trailer": false, "Authorization": false, "Cookie": false, "Set-Cookie": false, "WWW-Authenticate": false,
		"Content-Type": false, "Content-Encoding": false, "content-range": false, "Cache-Control": false,
		"If-Match": false, "Range": false, "Expect": false, "Max-Forwards": false, "Location": false, "Date": false,
		"Retry-After": false, "Via": false, "X-Forwarded-For": false, "X-Request-Id": false, "X_A": true,
		"Content-Location": false, "Accept-Language": false, "Access-Control-Allow-Origin": false,
		"Proxy-Authentication-Info": false, "X-HTTP-Method-Override": false} {
		for f := range http1.FieldLines([]byte(name + ": b\r\n")) {
			if got := f.MayBeTrailer(); got != want {
				t.Errorf("%s: %t", name, got)
			}
		}
	}
}

// TestTakesTrailers says which requests accept trailers.
func TestTakesTrailers(t *testing.T) {
	for fields, want := range map[string]bool{"": false, "TE: trailers\r\n": true, "TE: gzip;q=0.5 , Trailers\r\n": true,
		"TE: gzip\r\nte:trailers\r\n": true, "TE: trailers2\r\n": false, "TE:\r\n": false} {
		for minor, want := range []bool{false, want} {
			in := fmt.Sprintf("GET / HTTP/1.%d\r\nHost: a\r\n%s\r\n", minor, fields)
			m, err := readOne(t, http1test.Conversation{}, in)
			if err != nil || m.Head.TakesTrailers() != want {
				t.Errorf("%q: %t, %v", in, m.Head.TakesTrailers(), err)
			}
		}
	}
}

// TestWasteIsForgiven sees that large chunks pay for small ones, and that each
// message begins anew.
func TestWasteIsForgiven(t *testing.T) {
	small := "1;" + strings.Repeat("a", 140) + "\r\nx\r\n" // costs 128 bytes beyond its share: 128 of them are 16 KiB
	large := "2000\r\n" + strings.Repeat("x", 8<<10) + "\r\n"
	in := teHead + strings.Repeat(strings.Repeat(small, 128)+large, 2) + strings.Repeat(small, 128) + "0\r\n\r\n"
	got, err := new(http1test.Conversation).ReadAllWays([]byte(in + teHead + strings.Repeat(small, 128) + "0\r\n\r\n"))
	if err != nil || got.Err != nil || len(got.Messages) != 2 || len(got.Messages[0].Body) != 2*(128+8<<10)+128 {
		t.Errorf("%v\n%s", err, got)
	}
}
