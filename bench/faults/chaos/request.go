package chaos

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// behaviours are the behaviours of the target, with the statuses that clients may get. With cut
// it is a 200 whose body is truncated, which the client must detect.
var behaviours = []struct {
	name     string
	statuses []int
	cut      bool
}{
	{name: "ok", statuses: []int{200}},
	{name: "split", statuses: []int{200}},     // the answer is sent in pieces
	{name: "slow", statuses: []int{200}},      // with pauses between
	{name: "late", statuses: []int{200}},      // the answer starts late
	{name: "chunks", statuses: []int{200}},    // chunked
	{name: "hints", statuses: []int{200}},     // after an interim answer
	{name: "last", statuses: []int{200}},      // and closes the connection
	{name: "large", statuses: []int{200}},     // too large to be buffered, so streamed
	{name: "once", statuses: []int{200, 502}}, // the first attempt is reset, a repetition is served
	{name: "reset", statuses: []int{502}},
	{name: "eof", statuses: []int{502}},
	{name: "cut", statuses: []int{502}},              // in the middle of a buffered answer
	{name: "cutlarge", statuses: []int{}, cut: true}, // in the middle of a streamed answer
	{name: "junk", statuses: []int{502}},
}

const (
	largeBytes = 400 << 10 // more than BODY_BUFFER_BYTES
	// One request in oddOneIn has another behaviour than "ok". Of those with a large answer
	// only one in largeOneIn is played: the experiment is about exchanges, not about bytes.
	oddOneIn   = 6
	largeOneIn = 8
)

// A request is a request with a unique id, and its possible outcomes.
type request struct {
	method, target string
	body           []byte
	chunked        bool
	statuses       []int
	cut            bool
}

// newRequest returns request number n of a client.
func newRequest(r *rand.Rand, client, n int) request {
	m := &behaviours[0]
	if r.IntN(oddOneIn) == 0 {
		m = &behaviours[r.IntN(len(behaviours))]
		if strings.HasSuffix(m.name, "large") && r.IntN(largeOneIn) > 0 {
			m = &behaviours[0]
		}
	}
	q := request{method: "GET", target: fmt.Sprintf("/%s/%d/%d", m.name, client, n), statuses: m.statuses, cut: m.cut}
	switch r.IntN(10) {
	case 0:
		if !m.cut { // an answer to HEAD has no body to truncate
			q.method = "HEAD"
		}
	case 1, 2, 3:
		q.method = []string{"POST", "PUT", "PATCH"}[r.IntN(3)]
		q.body = bytes.Repeat([]byte{byte('a' + r.IntN(26))}, r.IntN(2000))
		q.chunked = r.IntN(2) == 0
		if r.IntN(500) == 0 {
			q.body = bytes.Repeat(q.body, 1+largeBytes/(1+len(q.body)))
		}
	}
	if q.method == "HEAD" && m.name == "cut" {
		q.statuses = []int{200} // no body to truncate
	}
	return q
}

func (q *request) append(b []byte) []byte {
	b = fmt.Appendf(b, "%s %s HTTP/1.1\r\nHost: chaos\r\n", q.method, q.target)
	switch {
	case q.chunked && len(q.body) > 0:
		b = append(b, "Transfer-Encoding: chunked\r\n\r\n"...)
		for rest := q.body; len(rest) > 0; {
			n := min(len(rest), 1+len(q.body)/3)
			b = append(strconv.AppendInt(b, int64(n), 16), "\r\n"...)
			b = append(append(b, rest[:n]...), "\r\n"...)
			rest = rest[n:]
		}
		return append(b, "0\r\n\r\n"...)
	case q.method != "GET" && q.method != "HEAD":
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(q.body))
	}
	return append(append(b, "\r\n"...), q.body...)
}

// echo returns the beginning of the body of an answer, which identifies the request.
func echo(method, target string, n int64, sum uint32) string {
	return fmt.Sprintf("%s %s %d %08x\n", method, target, n, sum)
}

// answers reports whether a body is the complete answer to q: the echo, followed by dots if it
// is large.
func (q *request) answers(body []byte) bool {
	if q.method == "HEAD" {
		return len(body) == 0
	}
	want := echo(q.method, q.target, int64(len(q.body)), crc32.ChecksumIEEE(q.body))
	rest, ok := bytes.CutPrefix(body, []byte(want))
	if strings.HasPrefix(q.target, "/large/") {
		return ok && len(rest) == largeBytes && len(bytes.TrimLeft(rest, ".")) == 0
	}
	return ok && len(rest) == 0
}

// may reports whether status is a possible answer to q; troubled says that the target was
// restarted meanwhile. A target with HTTP/2 may end its connection without processing a request
// that cannot be sent again, because the client sends the body as it is sent to the target.
func (q *request) may(status int, troubled bool) bool {
	return status == 429 || slices.Contains(q.statuses, status) || q.cut && status == 200 || troubled &&
		(status == 502 || status == 503) || status == 503 && q.chunked && len(q.body) > 0
}
