package wiretest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/internal/net/http1/http1test"
	"weir/internal/net/loop/looptest"
)

// A mishap is a fault of a target in one exchange.
type mishap uint8

const (
	fine        mishap = iota
	silent             // it sends no answer
	resets             // it resets the connection instead of answering
	ends               // it closes the connection instead of answering
	garbles            // its answer is not HTTP
	cuts               // its answer is incomplete
	adds               // it sends more than its answer
	early              // it answers before it has read the body, and reads on
	leaves             // it answers before it has read the body, and stops reading
	departs            // it closes after its answer without announcing it
	doubles            // its answer has two framings
	spoils             // the last chunk of its answer is malformed
	mishapCount = iota
)

// A service is a target's side of one connection: it reads requests, judges
// them and answers.
//
// Owned by its world.
type service struct {
	w      *World
	conn   *looptest.Socket
	reader http1test.Reader
	pace   time.Duration
	awake  bool
	done   bool

	user      *caller  // has logged in over the connection, or was asked to
	r         *request // the current request, or nil
	reading   bool
	mishap    mishap
	got       int // bytes of its body, or of the tunnel
	tunnel    bool
	out       []byte
	begun     bool // the answer was put into out
	cutAt     int  // the last cutAt bytes of out are not sent; -1: all are sent
	stalls    bool // at cutAt it stops sending, and keeps the connection open
	answered  int  // bytes of the current answer that were sent
	closing   bool // it closes when the answer is sent
	stopsRead bool // it reads no more
	announced bool // it has said that it closes
}

func newService(w *World, c *looptest.Socket) *service {
	sv := &service{w: w, conn: c, pace: w.newPace(), cutAt: -1}
	sv.reader = http1test.Reader{Sink: sv}
	return sv
}

func (sv *service) Wake() {
	if sv.awake || sv.done {
		return
	}
	sv.awake = true
	sv.w.After(sv.w.Within(sv.pace), func() {
		sv.awake = false
		sv.step()
	})
}

func (sv *service) step() {
	if sv.done {
		return
	}
	if n := sv.conn.Sent(); n > 0 && !sv.stopsRead {
		if err := sv.reader.Feed(sv.conn.Receive(sv.w.piece(n))); err != nil {
			sv.w.failed(sv.conn.Log, "at a target: %v", err)
			return
		}
	}
	more := sv.send()
	halfOpen := sv.tunnel && len(sv.out) > 0 && !sv.conn.Closed
	if ended, reset := sv.conn.Over(); ended && !sv.stopsRead && !halfOpen {
		sv.finish(reset)
		return
	}
	if more && !sv.done || sv.conn.Sent() > 0 && !sv.stopsRead {
		sv.Wake()
	}
}

// Head judges the head of a request.
func (sv *service) Head(h *http1test.Head) error {
	id, _ := strconv.ParseUint(strings.TrimPrefix(h.Target, "/x/"), 10, 64)
	r := sv.w.requests[id]
	if r == nil {
		return fmt.Errorf("an unknown request: %s", h.Line)
	}
	sv.conn.Log = &r.caller.front.Log
	sv.conn.Log.Note(sv.w.Now(), "target reads request", int64(id), h.Line)
	if sv.r != nil && sv.mishap == adds {
		sv.conn.Send(sv.out) // what it adds comes as the next answer
		sv.hangUp()
		return nil
	}
	if sv.r != nil {
		return fmt.Errorf("request %d comes before the answer to %d is sent", id, sv.r.id)
	}
	if sv.user != nil && sv.user != r.caller {
		return fmt.Errorf("request %d comes over a connection on which another client has logged in", id)
	}
	if r.logsIn {
		sv.user = r.caller
		sv.w.Saw("logins")
	}
	if r.arrivals++; r.arrivals > 1 {
		if err := sv.mayComeAgain(r); err != nil {
			return err
		}
	}
	r.at = sv
	codings, length := h.Values("transfer-encoding"), h.Value("content-length")
	switch {
	case r.never || !r.asks():
		return fmt.Errorf("request %d must not go to a target", id)
	case r.decisions != 1 || !r.allowed:
		return fmt.Errorf("request %d was not admitted: %d decisions", id, r.decisions)
	case h.Method != r.method || h.Value("x-req") != strconv.FormatUint(id, 10) || len(h.Values("host")) != 1:
		return fmt.Errorf("request %d comes as %+v", id, h)
	case len(h.Values("x-hop"))+len(h.Values("expect")) > 0:
		return fmt.Errorf("request %d comes with fields of its client's connection: %+v", id, h)
	case r.chunks != (len(codings) == 1) || !r.chunks && r.body > 0 && length != strconv.Itoa(r.body):
		return fmt.Errorf("request %d of %d bytes has framing %q, %q", id, r.body, codings, length)
	case (h.Value("upgrade") != "") != (r.kind == upgrade):
		return fmt.Errorf("request %d asks for an upgrade to %q", id, h.Value("upgrade"))
	}
	sv.begin(r)
	return nil
}

// mayComeAgain judges a request that has come before: its connection has brought no byte of an answer.
func (sv *service) mayComeAgain(r *request) error {
	switch {
	case !r.replayed || r.arrivals > 2:
		return fmt.Errorf("request %d comes %d times", r.id, r.arrivals)
	case r.at.answered > 0:
		return fmt.Errorf("request %d is sent again after %d bytes of answer", r.id, r.at.answered)
	}
	return nil
}

// begin chooses the mishap of the exchange.
func (sv *service) begin(r *request) {
	sv.r, sv.reading, sv.got, sv.begun, sv.cutAt, sv.stalls, sv.answered = r, true, 0, false, -1, false, 0
	sv.mishap = fine
	if sv.w.Fault(sv.w.Profile.serviceFaults) {
		if sv.mishap = cuts; sv.w.Odds(0.7) {
			sv.mishap = mishap(sv.w.IntN(mishapCount))
		}
		sv.conn.Log.Note(sv.w.Now(), "target's mishap", int64(sv.mishap), "")
	}
	if r.body > bufferMax && sv.w.Fault(sv.w.Profile.serviceFaults) {
		sv.mishap = []mishap{early, leaves}[sv.w.IntN(2)]
	}
	if sv.mishap == early || sv.mishap == leaves {
		sv.answer()
	}
}

// Body judges a piece of a request's body.
func (sv *service) Body(b []byte) error {
	if sv.done {
		return nil
	}
	size := sv.r.body
	if sv.tunnel {
		size = sv.r.answer.up
	}
	at := sv.got
	sv.got += len(b)
	if sv.got > size || !bytes.Equal(b, sv.w.up(sv.r.id, at, len(b))) {
		return fmt.Errorf("request %d: bytes %d to %d of the body's %d are not the client's", sv.r.id, at, sv.got, size)
	}
	return nil
}

// Whole judges a complete request, and answers it.
func (sv *service) Whole() error {
	if sv.done {
		return nil
	}
	if sv.got != sv.r.body || sv.r.kind == growing {
		return fmt.Errorf("request %d is complete with %d bytes of %d", sv.r.id, sv.got, sv.r.body)
	}
	if sv.got > bufferMax {
		sv.w.Saw("streams")
	}
	switch sv.reader.Trailers {
	case "":
	case trailer:
		sv.w.Saw("trailers")
	default:
		return fmt.Errorf("request %d ends with the trailers %q", sv.r.id, sv.reader.Trailers)
	}
	sv.reading = false
	if sv.begun {
		sv.maybeOver()
		return nil
	}
	switch sv.mishap {
	case silent:
	case resets:
		sv.conn.Reset()
		sv.done = true
	case ends:
		sv.hangUp()
	default:
		sv.answer()
	}
	return nil
}

// answer puts the answer into out.
func (sv *service) answer() {
	a, r := &sv.r.answer, sv.r
	sv.begun = true
	if a.offers && a.status != 101 {
		sv.user = r.caller
	}
	sv.out = a.bytes(sv.w, r)
	sv.closing = a.closes && a.status != 101
	sv.announced = sv.closing
	switch sv.mishap {
	case garbles:
		sv.out = append([]byte("HTTP/1.1 junk\r\n"), sv.out...)
	case doubles:
		sv.out = bytes.Replace(sv.out, []byte("X-Size:"),
			[]byte("Content-Length: 1\r\nTransfer-Encoding: chunked\r\nX-Size:"), 1)
		sv.closing = true
	case spoils:
		if a.framing == "chunked" && a.status != 101 && !r.bodyless() {
			sv.out = append(bytes.TrimSuffix(sv.out, []byte("0\r\n\r\n")), "zz\r\n\r\n"...)
			sv.closing = true
		}
	case cuts:
		sv.cutAt = 1 + sv.w.IntN(len(sv.out))
	case adds:
		if a.framing != "close" && a.status != 101 { // there it would be a part of the body
			sv.out = append(sv.out, "junk"...)
		}
		sv.closing = true
	case leaves:
		sv.stopsRead = sv.reading
	case departs:
		sv.closing = true
	}
	if sv.w.Fault(sv.w.Profile.serviceFaults / 4) {
		sv.cutAt, sv.stalls = 1+sv.w.IntN(len(sv.out)), true
	}
	if a.status == 101 && sv.cutAt < 0 && sv.mishap != garbles && sv.mishap != doubles {
		sv.tunnel, sv.got, sv.mishap = true, 0, fine
		sv.reader.Tunnel()
		sv.out = append(sv.out, sv.w.down(r.id, 0, a.down)...)
		sv.closing = !r.targetWaits
	}
	sv.Wake()
}

// send sends a piece, and reports whether there is more that may be sent.
func (sv *service) send() bool {
	if !sv.begun {
		return false
	}
	room := sv.conn.Room()
	if n := min(sv.w.piece(len(sv.out)), room); n > 0 {
		if sv.cutAt >= 0 {
			n = min(n, max(0, len(sv.out)-sv.cutAt))
		}
		b := sv.out[:n]
		sv.out = sv.out[n:]
		sv.conn.Send(b)
		sv.answered += n
		room -= n
	}
	switch {
	case sv.done:
		return false
	case sv.cutAt >= 0 && len(sv.out) <= sv.cutAt:
		if !sv.stalls {
			sv.cut()
		}
		return false
	case len(sv.out) > 0:
		return room > 0
	}
	sv.sent()
	return false
}

// cut ends the connection within an answer. If only the close ends the answer, the
// connection is reset, because otherwise the answer would look complete.
func (sv *service) cut() {
	if sv.r.answer.framing == "close" || sv.w.Odds(0.5) {
		sv.conn.Reset()
		sv.done = true
		return
	}
	sv.hangUp()
}

// sent handles that all of the answer was sent.
func (sv *service) sent() {
	if sv.closing {
		sv.hangUp()
		return
	}
	sv.maybeOver()
}

// maybeOver ends the exchange when all was read and sent.
func (sv *service) maybeOver() {
	if sv.reading || len(sv.out) > 0 || sv.tunnel {
		return
	}
	sv.r, sv.begun = nil, false
	if !sv.w.Fault(sv.w.Profile.serviceFaults) {
		return
	}
	sv.w.After(sv.w.Within(50*time.Millisecond), func() {
		if sv.r == nil && !sv.done { // no byte of another request was read
			sv.conn.Log.Note(sv.w.Now(), "target leaves between exchanges", 0, "")
			if sv.w.Odds(0.3) {
				sv.conn.Send([]byte("junk"))
				return
			}
			sv.hangUp()
		}
	})
}

// hangUp stops sending, and outside a tunnel also reading.
func (sv *service) hangUp() {
	sv.closing, sv.begun = true, false
	if sv.tunnel {
		sv.conn.End()
		return
	}
	sv.done = true
	sv.conn.Close()
}

// finish handles the end of what it receives.
func (sv *service) finish(reset bool) {
	sv.done = true
	if sv.tunnel && sv.w.Profile.calm && (reset || sv.got != sv.r.answer.up) {
		sv.w.failed(sv.conn.Log, "in a calm world tunnel %d ends after %d of %d bytes of the client", sv.r.id, sv.got,
			sv.r.answer.up)
	}
	sv.conn.Close()
}
