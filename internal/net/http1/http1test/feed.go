package http1test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"weir/internal/net/http1"
)

// Whole returns b as the only piece.
func Whole(b []byte) [][]byte { return [][]byte{b} }

// ByteByByte returns each byte of b as a piece.
func ByteByByte(b []byte) [][]byte {
	pieces := make([][]byte, 0, len(b))
	for i := range b {
		pieces = append(pieces, b[i:i+1])
	}
	return pieces
}

// SplitAt returns b in two pieces, the first of n bytes.
func SplitAt(b []byte, n int) [][]byte { return [][]byte{b[:n], b[n:]} }

// RandomPieces returns b in pieces of random length, which depend on the seed. Most are short,
// some are long.
func RandomPieces(b []byte, seed uint64) [][]byte {
	rnd := rand.New(rand.NewPCG(seed, uint64(len(b))))
	most := 1 + rnd.IntN(64)
	var pieces [][]byte
	for len(b) > 0 {
		n := 1 + rnd.IntN(most)
		if rnd.IntN(16) == 0 {
			n *= 50
		}
		n = min(n, len(b))
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return pieces
}

// A Message is a copy of the results of a Reader for one message.
type Message struct {
	// Head does not refer to the input: its slices are copies.
	Head http1.Head
	// Body is the part of the body that was read.
	Body string
	// Trailers are the lines of the trailer section.
	Trailers string
	// Complete says that End was returned, or that the message is an interim response or
	// the last one before another protocol.
	Complete bool
}

// A Record is the results of a Reader for some input.
type Record struct {
	Messages []Message
	// Err is the error that ended the reading, of the Reader or of Refuse.
	Err error
	// Stopped says that reading ended because a message closes the connection, or because
	// of Conversation.Single.
	Stopped bool
	// Upgraded says that another protocol follows the last message.
	Upgraded bool
	// Idle is the result of Reader.Idle at the end.
	Idle bool
	// Rest is the number of bytes that were not consumed; 0 with Err.
	Rest int
}

// A Conversation describes how input is read. The zero Conversation reads requests until one
// closes the connection.
type Conversation struct {
	// Limits are those of the Reader; nil means the defaults.
	Limits *http1.Limits
	// Response says to read responses, to requests with Method.
	Response bool
	Method   http1.Method
	// Refuse is called with each head; its error ends reading.
	Refuse func(h *http1.Head) error
	// Single says to end reading after the first message that is not interim.
	Single bool
	// Closed says to tell the Reader at the end that the peer has closed.
	Closed bool
}

func (c *Conversation) reader() http1.Reader {
	if !c.Response {
		return http1.NewRequestReader(c.Limits)
	}
	r := http1.NewResponseReader(c.Limits)
	r.ResponseTo(c.Method)
	return r
}

// Read feeds the pieces to a new Reader and records the results. It panics if the Reader
// violates its contract: it consumes more bytes than there are, returns data that is not part
// of the input, or makes no progress.
func (c *Conversation) Read(pieces [][]byte) Record {
	f := feeder{c: c, r: c.reader()}
	total := 0
	for _, p := range pieces {
		total += len(p)
		if !f.done {
			f.add(p)
			f.step()
		}
	}
	if !f.done && c.Closed {
		f.eof()
	}
	f.rec.Idle = f.r.Idle()
	if f.rec.Err == nil {
		f.rec.Rest = total - f.consumed
	}
	return f.rec
}

// feeder is the state of one Read.
type feeder struct {
	c        *Conversation
	r        http1.Reader
	h        http1.Head
	buf      []byte
	consumed int
	rec      Record
	done     bool
}

// add replaces the buffer by a new one of the exact size and overwrites the old one, so that
// references to it are detected.
func (f *feeder) add(p []byte) {
	next := make([]byte, len(f.buf)+len(p))
	copy(next[copy(next, f.buf):], p)
	clear(f.buf)
	f.buf = next
}

// step processes events until more bytes are needed.
func (f *feeder) step() {
	for idle := 0; !f.done; {
		ev, err := f.r.Next(f.buf, &f.h)
		if err != nil {
			f.rec.Err, f.done = err, true
			return
		}
		f.check(ev)
		f.take(ev)
		f.buf = f.buf[ev.N:]
		f.consumed += int(ev.N)
		if ev.Kind == http1.NeedMore {
			return
		}
		if idle++; ev.N > 0 {
			idle = 0
		}
		if idle > 2 {
			panic(fmt.Sprintf("http1test: the Reader does not move on: event %d again and again", ev.Kind))
		}
	}
}

func (f *feeder) check(ev http1.Event) {
	if ev.N < 0 || int(ev.N) > len(f.buf) || len(ev.Data) > int(ev.N) {
		panic(fmt.Sprintf("http1test: event %+v with %d bytes given", ev, len(f.buf)))
	}
	if ev.Kind == http1.Data && !bytes.Equal(ev.Data, f.buf[int(ev.N)-len(ev.Data):ev.N]) {
		panic("http1test: data that is not the end of what is done with")
	}
}

func (f *feeder) take(ev http1.Event) {
	switch ev.Kind {
	case http1.HeadDone:
		f.head()
	case http1.Data:
		f.last().Body += string(ev.Data)
	case http1.End:
		f.last().Complete = true
		f.last().Trailers = string(ev.Data)
		f.end()
	case http1.Upgraded:
		f.last().Complete = true
		f.rec.Upgraded, f.done = true, true
	}
}

func (f *feeder) head() {
	interim := f.c.Response && f.h.Status < 200 && f.h.Status != 101
	f.rec.Messages = append(f.rec.Messages, Message{Head: CloneHead(&f.h), Complete: interim})
	if f.c.Refuse != nil && !interim {
		if err := f.c.Refuse(&f.h); err != nil {
			f.rec.Messages = f.rec.Messages[:len(f.rec.Messages)-1]
			f.rec.Err, f.done = err, true
		}
	}
}

func (f *feeder) end() {
	if f.c.Single || !f.last().Head.KeepAlive {
		f.rec.Stopped, f.done = true, true
	}
}

func (f *feeder) last() *Message { return &f.rec.Messages[len(f.rec.Messages)-1] }

func (f *feeder) eof() {
	ev, err := f.r.EOF()
	if err != nil {
		f.rec.Err = err
		return
	}
	f.take(ev)
}

// ReadAllWays reads b whole, byte by byte, and in random pieces for some seeds. It returns the
// record, or an error if the records differ.
func (c *Conversation) ReadAllWays(b []byte) (Record, error) {
	want := c.Read(Whole(b))
	if got := c.Read(ByteByByte(b)); got.String() != want.String() {
		return want, fmt.Errorf("splitting changed what was read:\nwhole: %s\nbyte by byte: %s", want, got)
	}
	for seed := uint64(1); seed <= 4; seed++ {
		if got := c.Read(RandomPieces(b, seed)); got.String() != want.String() {
			return want, fmt.Errorf("splitting changed what was read:\nwhole: %s\nrandom pieces, seed %d: %s", want, seed, got)
		}
	}
	return want, nil
}

// String formats the whole record, one message per line.
func (r Record) String() string {
	var s strings.Builder
	for i := range r.Messages {
		fmt.Fprintf(&s, "%s\n", &r.Messages[i])
	}
	fmt.Fprintf(&s, "error %v (%d), stopped %t, upgraded %t, idle %t, rest %d",
		r.Err, statusOf(r.Err), r.Stopped, r.Upgraded, r.Idle, r.Rest)
	return s.String()
}

func statusOf(err error) int {
	if err == nil {
		return 0
	}
	return http1.StatusOf(err)
}

// String formats all fields of the message.
func (m *Message) String() string {
	h := &m.Head
	var s strings.Builder
	fmt.Fprintf(&s, "%s %q %q path %q query %q form %d host %q; %d %q; minor %d;", h.Method, h.MethodText,
		h.Target, h.Path, h.Query, h.Form, h.Host, h.Status, h.Reason, h.Minor)
	for _, f := range h.Fields {
		fmt.Fprintf(&s, " %q=%q/%d/%t", f.Name, f.Value, f.ID, f.Hop)
	}
	fmt.Fprintf(&s, "; framing %d length %d keepAlive %t expect %d upgrade %t; body %q trailers %q complete %t",
		h.Framing, h.Length, h.KeepAlive, h.Expect, h.Upgrade, shorten(m.Body), m.Trailers, m.Complete)
	return s.String()
}

func shorten(body string) string {
	const most = 4096
	if len(body) <= most {
		return body
	}
	return fmt.Sprintf("%s… (%d bytes, sum %s)", body[:64], len(body), bodySum(body))
}

// CloneHead returns a copy of h that shares nothing with the input.
func CloneHead(h *http1.Head) http1.Head {
	c := *h
	for _, p := range []*[]byte{&c.MethodText, &c.Target, &c.Path, &c.Query, &c.Host, &c.Reason} {
		*p = bytes.Clone(*p)
	}
	c.Fields = make([]http1.Field, len(h.Fields))
	for i, f := range h.Fields {
		f.Name, f.Value = bytes.Clone(f.Name), bytes.Clone(f.Value)
		c.Fields[i] = f
	}
	return c
}
