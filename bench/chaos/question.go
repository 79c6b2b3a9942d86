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

// moods are how the target may take a request, and how the exchange then ends.
// cut is a 200 whose body breaks off, which the client has to notice.
var moods = []struct {
	name     string
	statuses []int
	cut      bool
}{
	{name: "ok", statuses: []int{200}},
	{name: "split", statuses: []int{200}},     // the answer comes in pieces
	{name: "slow", statuses: []int{200}},      // with pauses between
	{name: "late", statuses: []int{200}},      // it begins late
	{name: "chunks", statuses: []int{200}},    // chunked
	{name: "hints", statuses: []int{200}},     // behind an interim answer
	{name: "last", statuses: []int{200}},      // and the connection closes
	{name: "large", statuses: []int{200}},     // too large to be collected, so streamed
	{name: "once", statuses: []int{200, 502}}, // is reset the first time; a repetition is served
	{name: "reset", statuses: []int{502}},
	{name: "eof", statuses: []int{502}},
	{name: "cut", statuses: []int{502}},              // in the middle of an answer that is collected
	{name: "cutlarge", statuses: []int{}, cut: true}, // in the middle of one that is streamed
	{name: "junk", statuses: []int{502}},
}

const (
	largeBytes = 400 << 10 // more than BODY_BUFFER_BYTES
	// Of so many questions one is no plain one, one of those is large: the run
	// is to be about exchanges, not about bytes.
	oddOneIn   = 6
	largeOneIn = 8
)

// A question is one request with an id of its own, and what may come of it.
type question struct {
	method, target string
	body           []byte
	chunked        bool
	statuses       []int
	cut            bool
}

// ask makes up the question number n of a client.
func ask(r *rand.Rand, client, n int) question {
	m := &moods[0]
	if r.IntN(oddOneIn) == 0 {
		m = &moods[r.IntN(len(moods))]
		if strings.HasSuffix(m.name, "large") && r.IntN(largeOneIn) > 0 {
			m = &moods[0]
		}
	}
	q := question{method: "GET", target: fmt.Sprintf("/%s/%d/%d", m.name, client, n), statuses: m.statuses, cut: m.cut}
	switch r.IntN(10) {
	case 0:
		if !m.cut { // a HEAD has no body that could break off
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
		q.statuses = []int{200} // there is nothing to cut
	}
	return q
}

// append writes the request.
func (q *question) append(b []byte) []byte {
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

// echo is the beginning of every answer's body: who has asked what.
func echo(method, target string, n int64, sum uint32) string {
	return fmt.Sprintf("%s %s %d %08x\n", method, target, n, sum)
}

// answers reports whether a body is the whole answer to q. It begins with the
// echo; a large one goes on with dots.
func (q *question) answers(body []byte) bool {
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

// may reports whether the status is one that q can be answered with. troubled:
// the target was away for a part of the time.
func (q *question) may(status int, troubled bool) bool {
	return status == 429 || slices.Contains(q.statuses, status) || q.cut && status == 200 || troubled && (status == 502 || status == 503)
}
