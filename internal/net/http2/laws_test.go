package http2_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
)

// A message is a request or a response on a stream, as it was sent or received.
type message struct {
	head, trailers string
	body           []byte
	ended, reset   bool
	left           []byte // what is still to be sent of body
	held           int    // what was received and not consumed
}

// A side is one end of a simulated connection.
type side struct {
	t         *testing.T
	c         *http2.Conn
	name      string
	h         http2.Head
	in        []byte // what has arrived and was not read
	out       []byte // what is on its way to the other
	sent, got map[uint32]*message
	ids, seen []uint32 // of sent and of got
}

func newSide(t *testing.T, role http2.Role, l *http2.Limits) *side {
	return &side{t: t, c: http2.New(role, l, epoch), name: [...]string{"server", "client"}[role],
		sent: make(map[uint32]*message), got: make(map[uint32]*message)}
}

// A world is a client and a server, and chance.
type world struct {
	client, server *side
	rnd            *rand.Rand
}

func (w *world) sides() (from, to *side) {
	if w.rnd.IntN(2) == 0 {
		return w.client, w.server
	}
	return w.server, w.client
}

// body returns a body of a length that is often 0 or small, and sometimes larger than all windows.
func (w *world) body() []byte {
	n := []int{0, 0, 1, 10, 1000, 10_000, 70_000, 300_000}[w.rnd.IntN(8)]
	b := make([]byte, n)
	for i, first := 0, byte(w.rnd.Uint32()); i < n; i++ {
		b[i] = first + byte(i%251)
	}
	return b
}

// request sends the head of a request, if the server allows one more.
func (w *world) request() {
	s := w.client
	m := &message{body: w.body()}
	path := fmt.Sprintf("/%d?q=%d", w.rnd.IntN(1000), len(m.body))
	fields := http1.AppendField(nil, "X-Test", fmt.Sprint(w.rnd.IntN(100)))
	if w.rnd.IntN(2) == 0 {
		fields = http1.AppendFieldInt(fields, "Content-Length", int64(len(m.body)))
	}
	end := len(m.body) == 0 && w.rnd.IntN(2) == 0
	out, id, err := s.c.AppendRequest(s.out, &http2.Request{Method: []byte("POST"), Scheme: "http",
		Authority: []byte("a.test"), Path: []byte(path), Fields: fields}, end)
	s.out = out
	if err != nil {
		return
	}
	m.head = path + " " + string(fields)
	m.left, m.ended = m.body, end
	s.sent[id] = m
	s.ids = append(s.ids, id)
}

// respond sends the head of the response to a request, perhaps after an interim one.
func (w *world) respond() {
	s := w.server
	for _, id := range s.seen {
		if s.sent[id] != nil || s.got[id].reset {
			continue
		}
		m := &message{body: w.body()}
		if w.rnd.IntN(4) == 0 {
			s.out, _ = s.c.AppendResponse(s.out, id, 103, nil, false)
		}
		status := []int{200, 404, 429, 503}[w.rnd.IntN(4)]
		fields := http1.AppendField(nil, "Server", fmt.Sprint(w.rnd.IntN(100)))
		end := len(m.body) == 0 && w.rnd.IntN(2) == 0
		var err error
		if s.out, err = s.c.AppendResponse(s.out, id, status, fields, end); err != nil {
			s.t.Fatalf("respond on stream %d: %v", id, err)
		}
		m.head = fmt.Sprint(status, " ", string(fields))
		m.left, m.ended = m.body, end
		s.sent[id] = m
		s.ids = append(s.ids, id)
		return
	}
}

// send sends a part of a body, and perhaps the end.
func (s *side) send(id uint32, most int, trailers bool) bool {
	m := s.sent[id]
	if m.ended || m.reset {
		return false
	}
	p := m.left[:min(most, len(m.left))]
	end := len(p) == len(m.left) && !trailers
	room := s.c.Room(id)
	before := len(s.out)
	out, n := s.c.AppendData(s.out, id, p, end)
	s.out = out
	if want := min(room, len(p)); n != want {
		s.t.Fatalf("%s: AppendData took %d of %d, there was room for %d", s.name, n, len(p), room)
	}
	m.left = m.left[n:]
	switch {
	case end && n == len(p):
		m.ended = true
	case trailers && len(m.left) == 0:
		m.trailers = "X-Sum: 1|"
		var err error
		if s.out, err = s.c.AppendTrailers(s.out, id, []byte("X-Sum: 1\r\n")); err != nil {
			s.t.Fatalf("%s: trailers: %v", s.name, err)
		}
		m.ended = true
	}
	return len(s.out) > before
}

// reset ends a stream.
func (s *side) reset(id uint32) {
	s.out = s.c.AppendReset(s.out, id, http2.Cancel)
	s.end(id)
}

// end records that a stream was reset.
func (s *side) end(id uint32) {
	for _, m := range []*message{s.sent[id], s.got[id]} {
		if m != nil {
			m.reset = true
		}
	}
}

// consume consumes what was received on a stream.
func (s *side) consume(id uint32, most int) bool {
	m := s.got[id]
	n := min(most, m.held)
	s.c.Consumed(id, n)
	m.held -= n
	return n > 0
}

// deliver moves n bytes to the other side, which reads them.
func (s *side) deliver(to *side, n int) bool {
	s.out = s.c.AppendControl(s.out)
	n = min(n, len(s.out))
	to.in = slices.Concat(to.in, s.out[:n])
	s.out = s.out[n:]
	for {
		ev, err := to.c.Next(epoch, to.in, &to.h)
		if err != nil {
			s.t.Fatalf("%s: %v", to.name, err)
		}
		if ev.Kind == http2.NeedMore {
			to.in = to.in[ev.N:]
			break
		}
		to.event(ev)
		to.in = to.in[ev.N:]
	}
	for _, x := range []*side{s, to} {
		if why := x.c.Unbalanced(); why != "" {
			s.t.Fatalf("%s: %s", x.name, why)
		}
	}
	return n > 0
}

func (s *side) event(ev http2.Event) {
	m := s.got[ev.Stream]
	if m != nil && (m.reset || m.ended && ev.Kind != http2.Reset && ev.Kind != http2.WindowGrew) {
		s.t.Fatalf("%s: event %d on stream %d after its end", s.name, ev.Kind, ev.Stream)
	}
	switch ev.Kind {
	case http2.HeadDone:
		if s.h.Status != 0 && s.h.Status < 200 {
			return
		}
		if m != nil {
			s.t.Fatalf("%s: a second head on stream %d", s.name, ev.Stream)
		}
		start := string(s.h.Target)
		fields := s.h.Fields
		if s.h.Status != 0 {
			start = fmt.Sprint(s.h.Status)
		} else {
			fields = fields[1:] // Host
		}
		m = &message{head: start + " " + lines(fields)}
		s.got[ev.Stream] = m
		s.seen = append(s.seen, ev.Stream)
	case http2.Data:
		m.body = append(m.body, ev.Data...)
		m.held += len(ev.Data)
	case http2.Trailers:
		m.trailers = lines(s.h.Fields)
	case http2.Reset:
		s.end(ev.Stream)
	}
	if ev.EndStream {
		m.ended = true
	}
}

// step does one thing.
func (w *world) step(resets bool) {
	from, to := w.sides()
	pick := func(ids []uint32) (uint32, bool) {
		if len(ids) == 0 {
			return 0, false
		}
		return ids[len(ids)-1-w.rnd.IntN(min(len(ids), 8))], true
	}
	switch w.rnd.IntN(8) {
	case 0:
		w.request()
	case 1:
		w.respond()
	case 2, 3:
		if id, ok := pick(from.ids); ok {
			from.send(id, 1<<w.rnd.IntN(18), w.rnd.IntN(4) == 0)
		}
	case 4, 5:
		from.deliver(to, 1<<w.rnd.IntN(18))
	case 6:
		if id, ok := pick(to.ids); ok && from.got[id] != nil {
			from.consume(id, 1<<w.rnd.IntN(18))
		}
	case 7:
		if id, ok := pick(from.ids); ok && resets && w.rnd.IntN(4) == 0 {
			from.reset(id)
		}
	}
}

// settle does everything that can be done, until nothing can.
func (w *world) settle() {
	for progress := true; progress; {
		progress = false
		for n := -1; n != len(w.server.sent); {
			n = len(w.server.sent)
			w.respond()
		}
		for _, s := range []*side{w.client, w.server} {
			for _, id := range s.ids {
				progress = s.send(id, 1<<30, false) || progress
			}
			for _, id := range s.seen {
				progress = s.consume(id, 1<<30) || progress
			}
		}
		progress = w.client.deliver(w.server, 1<<30) || progress
		progress = w.server.deliver(w.client, 1<<30) || progress
	}
}

// Whatever the order and the sizes of pieces, each message arrives as it was sent, is ended once, and what was reset
// arrives as its beginning. The accounts of the windows are balanced after each step, and no side finds that the
// other has violated them. At last everything has been sent: there is no deadlock of windows.
func TestLaws(t *testing.T) {
	for seed := range uint64(30) {
		l := http2.Limits{Streams: 5, Window: 65_536, ConnWindow: 100_000, GlitchBurst: -1}
		w := &world{client: newSide(t, http2.Client, &l), server: newSide(t, http2.Server, &l),
			rnd: rand.New(rand.NewPCG(seed, 1))}
		for range 3000 {
			w.step(seed%2 == 1)
		}
		w.settle()
		same(t, seed, w.client, w.server)
		same(t, seed, w.server, w.client)
		for _, s := range []*side{w.client, w.server} {
			if n := s.c.Streams(); n != 0 {
				t.Errorf("seed %d: %d streams are left at the %s", seed, n, s.name)
			}
		}
	}
}

// same compares what was sent with what was received.
func same(t *testing.T, seed uint64, from, to *side) {
	t.Helper()
	if len(from.sent) < 5 {
		t.Errorf("seed %d: the %s has sent only %d messages", seed, from.name, len(from.sent))
	}
	for id, sent := range from.sent {
		got := to.got[id]
		if back := to.sent[id]; sent.reset || got != nil && got.reset || back != nil && back.reset {
			if got != nil && !bytes.HasPrefix(sent.body, got.body) {
				t.Errorf("seed %d: stream %d: other bytes were received", seed, id)
			}
			continue
		}
		if got == nil || !got.ended || !sent.ended {
			t.Fatalf("seed %d: stream %d of the %s did not arrive: sent %t, got %v",
				seed, id, from.name, sent.ended, got != nil)
		}
		want := strings.ReplaceAll(strings.ToLower(sent.head), "\r\n", "|")
		if got.head != want || got.trailers != strings.ToLower(sent.trailers) || !bytes.Equal(got.body, sent.body) {
			t.Errorf("seed %d: stream %d of the %s: sent %q, %d bytes, %q; received %q, %d bytes, %q", seed, id, from.name,
				want, len(sent.body), sent.trailers, got.head, len(got.body), got.trailers)
		}
	}
}
