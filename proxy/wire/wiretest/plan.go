package wiretest

import (
	"fmt"
	"strconv"
	"strings"
)

// A request is one that a caller plans to send, and what has happened to it.
type request struct {
	id     uint64
	kind   kind
	method string
	minor  int
	target string
	body   int
	chunks bool // its framing
	expect bool // it waits for 100
	never  bool // it follows a malformed request, and must not be read as a request
	last   bool // no request can follow
	logsIn bool // it authenticates the connection to the target
	answer answer
	caller *caller

	allowed, storeAway  bool
	postponed, kept     bool // to be delivered later; stored
	decisions, outcomes int
	replayed            bool
	arrivals            int      // at targets
	at                  *service // where it came the last time
	sent                bool
	callerWaits         bool // the caller ends the tunnel after the target has
	targetWaits         bool // the reverse
	continued           bool // 100 has come
}

// An answer is what a target sends if there is no mishap.
type answer struct {
	status   int
	framing  string // "length", "chunked", "close"
	size     int
	interims int
	offers   bool // a login over the connection
	closes   bool // it closes after the answer, and announces that
	up, down int  // bytes of a tunnel
}

// A kind says how a request must be handled.
type kind uint8

const (
	plain     kind = iota // forwarded
	upgrade               // asks for a tunnel
	own                   // for an own endpoint
	here                  // OPTIONS with Max-Forwards: 0
	tooLarge              // 413 by its length
	growing               // 413 when too much of its body was read
	circle                // 508: a forwarding loop
	forbidden             // TRACE: 405
	demanding             // an unknown expectation: 417
	malformed             // 400
	partial               // a head that does not end
)

// status returns the status of the proxy's own answer to a kind, or 0 if it varies.
func (k kind) status() int {
	return [...]int{here: 200, own: 200, tooLarge: 413, circle: 508, forbidden: 405, demanding: 417, malformed: 400,
		partial: 408}[k]
}

// size draws the length of a body.
func (w *World) size() int {
	switch w.IntN(10) {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return bufferMax - 1 + w.IntN(3) // about the bound of what is collected
	case 3:
		return bufferMax + w.IntN(40<<10)
	case 4:
		return w.IntN(8 << 10)
	}
	return w.IntN(300)
}

// plans draws what a caller sends.
func (w *World) plans(minor int) (list []*request) {
	for range 1 + w.IntN(8) {
		r := w.newRequest(minor)
		list = append(list, r)
		if r.last {
			break
		}
	}
	if last := list[len(list)-1]; last.kind == malformed {
		list = append(list, w.smuggled())
	}
	return list
}

// smuggled returns what follows a malformed request, and must not be read.
func (w *World) smuggled() *request {
	r := w.numbered(1)
	r.method, r.never = "GET", true
	return r
}

func (w *World) numbered(minor int) *request {
	id := uint64(len(w.requests) + 1)
	r := &request{id: id, minor: minor, target: "/x/" + strconv.FormatUint(id, 10)}
	w.requests[id] = r
	w.Saw("requests")
	return r
}

func (w *World) newRequest(minor int) *request {
	r := w.numbered(minor)
	r.method = []string{"GET", "GET", "GET", "HEAD", "DELETE", "POST", "POST", "PUT", "PATCH", "PURGE"}[w.IntN(10)]
	if r.method == "POST" || r.method == "PUT" || r.method == "PATCH" {
		r.body = w.size()
		r.chunks = minor == 1 && w.Odds(0.4)
		r.expect = minor == 1 && w.Odds(0.2)
	}
	r.answer = w.newAnswer()
	r.logsIn = w.Odds(0.05)
	switch {
	case w.Odds(0.05):
		w.ownRequest(r)
	case w.Odds(0.05) && minor == 1:
		r.kind, r.method, r.body, r.chunks, r.expect, r.last = upgrade, "GET", 0, false, false, true
		r.answer.up, r.answer.down = w.size(), w.size()
		r.callerWaits = w.Odds(0.3)
		r.targetWaits = !r.callerWaits && w.Odds(0.5)
		if w.Odds(0.8) {
			r.answer.status = 101
		}
	case w.Odds(0.04):
		w.odd(r)
	}
	return r
}

func (w *World) newAnswer() answer {
	a := answer{status: []int{200, 200, 200, 201, 404, 500, 204, 304}[w.IntN(8)],
		framing: []string{"length", "length", "chunked", "close"}[w.IntN(4)]}
	if a.status != 204 && a.status != 304 {
		a.size = w.size()
	}
	if w.Odds(0.1) {
		a.interims = 1 + w.IntN(3)
	}
	a.offers = w.Odds(0.02)
	a.closes = w.Odds(0.1) || a.framing == "close"
	return a
}

func (w *World) ownRequest(r *request) {
	r.body %= bufferMax // what an own endpoint takes is collected whole
	r.kind, r.target = own, "/config/limits"
	if r.method != "POST" {
		r.method, r.body, r.chunks, r.expect = "GET", 0, false, false
	}
	r.answer = answer{status: 200, framing: "length", size: w.size() % bufferMax}
}

// odd changes r, at random, to a request that is not forwarded.
func (w *World) odd(r *request) {
	r.kind = []kind{here, tooLarge, growing, circle, forbidden, demanding, malformed, partial}[w.IntN(8)]
	r.expect = false
	r.last = r.kind != here
	switch r.kind {
	case here:
		r.method, r.body, r.chunks = "OPTIONS", 0, false
	case tooLarge:
		r.method, r.body, r.chunks = "POST", bodyMax+1, false
	case growing:
		r.method, r.body, r.chunks = "POST", bodyMax+1+w.IntN(2000), true
		if r.minor == 0 {
			r.kind, r.chunks = tooLarge, false
		}
	case partial:
		r.body, r.chunks = 0, false
	case forbidden:
		r.method, r.body, r.chunks = "TRACE", 0, false
	case demanding:
		r.kind = circle
		if r.minor == 1 {
			r.kind = demanding
		}
	}
}

// asks reports whether the limiter is asked about the request.
func (r *request) asks() bool {
	return r.kind == plain || r.kind == upgrade || r.kind == growing || r.never
}

// bodyless reports whether the answer of a target has no body.
func (r *request) bodyless() bool {
	return r.method == "HEAD" || r.answer.status == 204 || r.answer.status == 304
}

// bytes returns what the caller sends, the head and the body separately.
func (r *request) bytes(w *World) (head, body []byte) {
	var h strings.Builder
	target := r.target
	if w.Odds(0.1) {
		target = "http://example.com" + target
	}
	fmt.Fprintf(&h, "%s %s HTTP/1.%d\r\n", r.method, target, r.minor)
	if r.minor == 1 || w.Odds(0.5) || target != r.target {
		h.WriteString("Host: example.com\r\n")
	}
	fmt.Fprintf(&h, "X-Req: %d\r\n", r.id)
	switch {
	case r.kind == upgrade:
		h.WriteString("Connection: upgrade\r\nUpgrade: websocket\r\n")
	case r.minor == 0 && w.Odds(0.7):
		h.WriteString("Connection: keep-alive\r\n")
	case w.Odds(0.2):
		h.WriteString("Connection: X-Hop\r\nX-Hop: 1\r\n")
	}
	h.WriteString(map[kind]string{here: "Max-Forwards: 0\r\n", circle: "Via: 1.1 weir\r\n",
		demanding: "Expect: tea\r\n", malformed: "No Field\r\n"}[r.kind])
	if r.logsIn {
		h.WriteString("Authorization: Negotiate YII=\r\n")
	}
	if r.expect {
		h.WriteString("Expect: 100-continue\r\n")
	}
	content := w.up(r.id, 0, r.body)
	switch {
	case r.chunks:
		h.WriteString("Transfer-Encoding: chunked\r\n")
		content = w.chunked(content)
	case r.body > 0 || r.kind != upgrade && w.Odds(0.2):
		fmt.Fprintf(&h, "Content-Length: %d\r\n", r.body)
	}
	if r.kind != partial {
		h.WriteString("\r\n")
	}
	return []byte(h.String()), content
}

// trailer is what some messages in chunks end with.
const trailer = "X-Trailer: 1\r\n"

// chunked splits b into chunks.
func (w *World) chunked(b []byte) []byte {
	var out []byte
	most := 1 + w.IntN(1+len(b)/(1+w.IntN(20)))
	for len(b) > 0 {
		n := min(len(b), 1+w.IntN(max(most, len(b)/50+1)))
		out = strconv.AppendInt(out, int64(n), 16)
		if w.Odds(0.1) {
			out = append(out, ";a=b"...)
		}
		out = append(append(append(out, "\r\n"...), b[:n]...), "\r\n"...)
		b = b[n:]
	}
	out = append(out, "0\r\n"...)
	if w.Odds(0.2) {
		out = append(out, trailer...)
	}
	return append(out, "\r\n"...)
}

// bytes returns what the target sends for a request.
func (a *answer) bytes(w *World, r *request) []byte {
	var out []byte
	for range a.interims {
		out = append(out,
			[]string{"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"}[w.IntN(2)]...)
	}
	out = fmt.Appendf(out, "HTTP/1.1 %d Whatever\r\nX-Id: %d\r\nX-Size: %d\r\n", a.status, r.id, a.size)
	if a.status == 101 {
		return append(out, "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"...)
	}
	if a.offers {
		out = append(out, "WWW-Authenticate: NTLM\r\n"...)
	}
	if a.closes {
		out = append(out, "Connection: close\r\n"...)
	}
	content := w.down(r.id, 0, a.size)
	none := a.status == 204 || a.status == 304
	switch {
	case none:
	case a.framing == "length":
		out = fmt.Appendf(out, "Content-Length: %d\r\n", a.size)
	case a.framing == "chunked":
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
		content = w.chunked(content)
	}
	out = append(out, "\r\n"...)
	if r.bodyless() {
		return out
	}
	return append(out, content...)
}
