package mux_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/proxy/http/exchange"
	"weir/proxy/http/mux"
)

// An upWorld is a connection to a target, the target, and exchanges whose clients read and write as the test
// says.
type upWorld struct {
	*world   // for its exchanges
	env      mux.UpstreamEnv
	up       *mux.Upstream
	target   *http2.Conn
	head     http2.Head
	toTarget []byte // sent and not read
	fromIt   []byte
	callers  map[*exchange.Exchange]*caller
	asked    map[uint32]*askedFor // what the target has got, by stream
}

// A caller is a client with one request.
type caller struct {
	x      exchange.Exchange
	stream mux.UpstreamStream
	lent   bool
	body   []byte // still to be sent
	length int
	read   bool
	full   bool // it reads nothing of its answer
	status int
	got    bytes.Buffer
	ended  bool
	how    exchange.End
	again  bool // the exchange wants another stream
}

// An askedFor is a request at the target.
type askedFor struct {
	path   string
	body   bytes.Buffer
	ended  bool
	answer []byte // still to be sent
	size   int    // of all of it
	begun  bool
	reset  http2.Code
}

func newUpWorld(t *testing.T, window int) *upWorld {
	w := &upWorld{world: newWorld(t, 0), callers: make(map[*exchange.Exchange]*caller),
		asked: make(map[uint32]*askedFor)}
	w.world.env.Exchange.Settings.BodyBytesMax = 0
	w.env = mux.UpstreamEnv{Settings: &mux.UpstreamSettings{StreamsMax: 100, SilenceTimeout: 10 * time.Second,
		StallTimeout: 15 * time.Second, QueueMax: 1000, HTTP2: http2.Limits{GlitchBurst: -1}}}
	w.up = mux.NewUpstream(w.now, &w.env, false)
	w.target = http2.New(http2.Server, &http2.Limits{Window: max(window, 65535), GlitchBurst: -1}, w.now)
	w.toTarget = append(w.toTarget, w.up.Control()...)
	w.run()
	if !w.up.Ready() || w.up.Free() != 100 {
		t.Fatalf("ready %t, %d streams are free", w.up.Ready(), w.up.Free())
	}
	return w
}

// call begins a request with a body of that size; -1: it has none.
func (w *upWorld) call(path string, size int) *caller {
	w.t.Helper()
	c := &caller{x: exchange.New(w.world.env.Exchange, netip.MustParseAddr("192.0.2.7"), false), length: max(0, size)}
	w.callers[&c.x] = c
	text := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	if size >= 0 {
		text = fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, size)
	}
	reader, head := http1.NewRequestReader(&http1.Limits{}), http1.Head{}
	if _, err := reader.Next([]byte(text), &head); err != nil {
		w.t.Fatal(err)
	}
	c.body = bytes.Repeat([]byte("u"), c.length)
	w.world.env.Exchange.Begin()
	c.x.HandleHead(w.now, &head, w.now)
	w.apply(c)
	return c
}

// apply carries out the effects of a caller's exchange until there are none left.
func (w *upWorld) apply(c *caller) {
	w.t.Helper()
	for more := true; more; {
		if more = c.x.Reads() && !c.read; more {
			n := min(len(c.body), 700)
			if n > 0 {
				c.x.HandleBody(w.now, c.body[:n])
				c.body = c.body[n:]
			} else {
				c.read = true
				c.x.HandleBodyEnd(w.now)
			}
		}
		fx := c.x.MoveEffects(nil)
		if fx.Response != nil {
			c.status = fx.Response.Status
		}
		c.got.Write(fx.Body)
		if fx.Forward != nil || len(fx.Upload) > 0 || fx.Uploaded {
			out, err := c.stream.Append(w.now, nil, &c.x, fx, "target")
			if err != nil {
				w.t.Fatal(err)
			}
			w.toTarget = append(w.toTarget, out...)
			if c.stream.Full() {
				c.x.HandleTargetFull(w.now, true)
			}
		}
		if how, _ := c.x.End(); how != exchange.EndNone {
			c.ended, c.how = true, how
		}
		if fx.Release != exchange.ReleaseNone && c.lent {
			c.lent = false
			w.toTarget = append(w.toTarget, c.stream.Return()...)
		}
		switch more = more || fx.Stream || fx.Admit; {
		case fx.Stream:
			c.x.HandleStream(w.now, true)
		case fx.Admit:
			c.x.HandleAdmitted(w.now)
		case fx.Acquire == exchange.AcquireAny:
			c.lent, more = true, true
			w.up.Lend(w.now, &c.stream)
			c.x.HandleAcquired(w.now, w.up.Served())
		case fx.Acquire != exchange.AcquireNone:
			c.again = true
		}
	}
}

// run has both sides read what was sent to them, once.
func (w *upWorld) run() {
	w.t.Helper()
	w.serve(len(w.toTarget))
	w.hear(len(w.fromIt))
}

// serve has the target read n bytes.
func (w *upWorld) serve(n int) {
	w.t.Helper()
	b := w.toTarget[:n]
	for {
		ev, err := w.target.Next(w.now, b, &w.head)
		if err != nil {
			w.t.Fatal(err)
		}
		if b = b[ev.N:]; ev.Kind == http2.NeedMore {
			break
		}
		q := w.asked[ev.Stream]
		switch ev.Kind {
		case http2.HeadDone:
			q = &askedFor{path: string(w.head.Target)}
			w.asked[ev.Stream] = q
		case http2.Data:
			q.body.Write(ev.Data)
			w.target.Consumed(ev.Stream, len(ev.Data))
		case http2.Reset:
			q.reset = ev.Code
		}
		if q != nil {
			q.ended = q.ended || ev.EndStream
		}
	}
	w.toTarget = append(append([]byte(nil), b...), w.toTarget[n:]...)
	w.fromIt = w.target.AppendControl(w.fromIt)
}

// hear has the proxy read n bytes from the target.
func (w *upWorld) hear(n int) {
	w.t.Helper()
	b := w.fromIt[:n]
	for {
		n, x := w.up.Handle(w.now, b)
		if b = b[n:]; x == nil {
			break
		}
		w.apply(w.callers[x])
	}
	w.fromIt = append(append([]byte(nil), b...), w.fromIt[n:]...)
	for more := true; more; {
		frames, resumed := w.up.Flush(w.now)
		more = len(frames) > 0
		w.toTarget = append(w.toTarget, frames...)
		for _, x := range resumed {
			x.HandleTargetFull(w.now, false)
			w.apply(w.callers[x])
		}
	}
	w.toTarget = append(w.toTarget, w.up.Control()...)
}

// reply has the target send as much of its answer as there is room for.
func (w *upWorld) reply(id uint32) {
	w.t.Helper()
	q := w.asked[id]
	if !q.begun {
		q.begun = true
		var err error
		if w.fromIt, err = w.target.AppendResponse(w.fromIt, id, 200, nil, false); err != nil {
			w.t.Fatal(err)
		}
	}
	n := 0
	w.fromIt, n = w.target.AppendData(w.fromIt, id, q.answer, true)
	q.answer = q.answer[n:]
}

// Requests and answers of any size pass over one connection at the same time, however its bytes are divided,
// and clients that read nothing for a while stop no others.
func TestUpstreamLaws(t *testing.T) {
	for seed := range uint64(60) {
		chance := rand.New(rand.NewPCG(seed, 1))
		w := newUpWorld(t, 0)
		var all []*caller
		for i := range 20 {
			all = append(all, w.call(fmt.Sprint("/", i), []int{-1, 0, 5, 3000, 200_000}[chance.IntN(5)]))
		}
		sizes := []int{0, 10, 5000, 150_000}
		for turn := 0; w.up.Lent() > 0; turn++ {
			if turn > 20_000 {
				t.Fatalf("seed %d: %d streams have not ended", seed, w.up.Lent())
			}
			w.serve(chance.IntN(len(w.toTarget) + 1))
			for id, q := range w.asked {
				switch {
				case q.ended && !q.begun:
					q.answer = bytes.Repeat([]byte(q.path[1:2]), sizes[chance.IntN(len(sizes))])
					q.size = len(q.answer)
					w.reply(id)
				case len(q.answer) > 0:
					w.reply(id)
				}
			}
			w.hear(chance.IntN(len(w.fromIt) + 1))
			c := all[chance.IntN(len(all))]
			if turn > 10_000 || c.x.Relays() {
				c.full = turn <= 10_000 && !c.full
				c.x.HandleClientFull(w.now, c.full)
				w.apply(c)
				for x := w.up.Resume(w.now); x != nil; x = w.up.Resume(w.now) {
					w.apply(w.callers[x])
				}
			}
		}
		for i, c := range all {
			id := uint32(0)
			for of, q := range w.asked {
				if q.path == fmt.Sprint("/", i) {
					id = of
				}
			}
			q := w.asked[id]
			if q == nil || q.body.Len() != c.length || !c.ended || c.status != 200 ||
				c.got.Len() != q.size || bytes.Count(c.got.Bytes(), []byte(q.path[1:2])) != q.size || q.reset != 0 {
				t.Fatalf("seed %d, request %d of %d bytes: ended %t with %d and %d bytes; the target %+v", seed, i, c.length,
					c.ended, c.status, c.got.Len(), q)
			}
		}
		if w.up.Free() != 100 || w.up.Err() != nil {
			t.Errorf("seed %d: %d streams are free, %v", seed, w.up.Free(), w.up.Err())
		}
	}
}

// A PING follows silence, and its answer is enough.
func TestUpstreamSilence(t *testing.T) {
	w := newUpWorld(t, 0)
	w.call("/", -1)
	w.run()
	for i, c := range []struct {
		after  time.Duration
		pings  bool
		failed bool
		hears  bool
	}{{after: 9 * time.Second}, {after: time.Second, pings: true, hears: true}, {after: 9 * time.Second},
		{after: time.Second, pings: true}, {after: 9 * time.Second}, {after: time.Second, failed: true}} {
		w.now = w.now.Add(c.after)
		frames, stalled := w.up.HandleTick(w.now)
		if (len(frames) > 0) != c.pings || (w.up.Err() != nil) != c.failed || len(stalled) > 0 {
			t.Fatalf("step %d: %d bytes, %v, %d stalled", i, len(frames), w.up.Err(), len(stalled))
		}
		if w.toTarget = append(w.toTarget, frames...); c.hears {
			w.run()
		}
	}
	if !w.up.Ended() || w.up.Free() != 0 {
		t.Errorf("ended %t, %d streams are free", w.up.Ended(), w.up.Free())
	}
}

// A connection without requests need not be heard of.
func TestUpstreamSilenceBeforeRequest(t *testing.T) {
	w := newUpWorld(t, 0)
	w.now = w.now.Add(time.Hour)
	w.call("/", -1)
	if frames, _ := w.up.HandleTick(w.now); len(frames) > 0 {
		t.Errorf("%q is sent to a target that has just got a request", frames)
	}
}

// A client whose exchange ends takes its stream with it, and nothing else.
func TestUpstreamReturn(t *testing.T) {
	w := newUpWorld(t, 0)
	gone, other := w.call("/1", -1), w.call("/2", -1)
	w.run()
	gone.x.HandleClientClosed()
	w.apply(gone)
	w.run()
	if q := w.asked[1]; q.reset != http2.Cancel || w.up.Lent() != 1 {
		t.Errorf("the target has got %s, %d streams are lent", q.reset, w.up.Lent())
	}
	w.reply(3)
	if w.run(); !other.ended || other.status != 200 || w.up.Lent() != 0 {
		t.Errorf("ended %t with %d, %d streams are lent", other.ended, other.status, w.up.Lent())
	}
}

// A target that has answered need not read the rest of the request: it may reset the stream without error, or
// read nothing. The client gets all of the answer, however late it reads it (RFC 9113 section 8.1).
func TestUpstreamAnswersEarly(t *testing.T) {
	for _, resets := range []bool{true, false} {
		w := newUpWorld(t, 0)
		c := w.call("/1", 200_000)
		w.serve(len(w.toTarget))
		w.fromIt = nil // the target makes no room
		must := func(b []byte, err error) {
			if w.fromIt = b; err != nil {
				t.Fatal(err)
			}
		}
		must(w.target.AppendResponse(w.fromIt, 1, 200, nil, false))
		w.hear(len(w.fromIt))
		if !c.x.Relays() {
			t.Fatalf("the answer is not passed on: %s", &c.x)
		}
		c.x.HandleClientFull(w.now, true)
		w.apply(c)
		w.fromIt, _ = w.target.AppendData(w.fromIt, 1, []byte("answer"), true)
		if resets {
			w.fromIt = w.target.AppendReset(w.fromIt, 1, http2.NoError)
		}
		w.hear(len(w.fromIt))
		w.now = w.now.Add(time.Minute)
		if _, stalled := w.up.HandleTick(w.now); c.ended || len(stalled) > 0 {
			t.Errorf("resets %t: ended %t, %d stalled before the client has read the answer", resets, c.ended, len(stalled))
		}
		c.x.HandleClientFull(w.now, false)
		w.apply(c)
		if w.up.Resume(w.now) != &c.x {
			t.Fatalf("resets %t: nothing to read", resets)
		}
		if w.apply(c); c.how != exchange.EndAnswered || c.got.String() != "answer" || w.up.Lent() != 0 || w.up.Free() != 100 {
			t.Errorf("resets %t: ended %d with %q, %d streams are lent, %d free", resets, c.how, c.got.String(), w.up.Lent(),
				w.up.Free())
		}
	}
}

// A connection that accepts no more gets no further requests, and no stream is to blame for that.
func TestUpstreamFull(t *testing.T) {
	w := newUpWorld(t, 0)
	w.env.Settings.SilenceTimeout = time.Hour
	w.call("/1", 200_000)
	w.up.HandleFull(true)
	if w.up.Free() != 0 {
		t.Errorf("%d streams are free", w.up.Free())
	}
	for i, after := range []time.Duration{14 * time.Second, time.Second, 14 * time.Second, time.Second} {
		w.now = w.now.Add(after)
		_, stalled := w.up.HandleTick(w.now)
		if want := i / 3; len(stalled) != want {
			t.Errorf("step %d: %d streams stall, want %d", i, len(stalled), want)
		}
		w.up.HandleFull(i == 0)
	}
	if w.up.Free() != 99 {
		t.Errorf("%d streams are free", w.up.Free())
	}
}

// GOAWAY returns the requests that were not processed, and the connection ends with the others.
func TestUpstreamGoAway(t *testing.T) {
	w := newUpWorld(t, 0)
	first, second := w.call("/1", -1), w.call("/2", 2)
	w.fromIt = append(w.fromIt, "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"...)
	w.hear(len(w.fromIt))
	if !second.again || first.again || w.up.Free() != 0 || w.up.Ended() {
		t.Errorf("sent again %t and %t, %d are free, ended %t", first.again, second.again, w.up.Free(), w.up.Ended())
	}
	w.serve(len(w.toTarget))
	w.reply(1)
	if w.hear(len(w.fromIt)); !first.ended || !w.up.Ended() {
		t.Errorf("answered %t, the connection has ended %t", first.ended, w.up.Ended())
	}
}

// Whatever a target sends, no exchange gets two answers, and each ends when its connection does.
func FuzzUpstream(f *testing.F) {
	f.Add([]byte("\x00\x00\x01\x01\x05\x00\x00\x00\x01\x88"), uint8(3))
	f.Add([]byte("\x00\x00\x01\x01\x04\x00\x00\x00\x03\x88\x00\x00\x02\x00\x01\x00\x00\x00\x03ok"), uint8(200))
	f.Add([]byte("\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x07"), uint8(0))
	f.Add([]byte("\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"), uint8(9))
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		w := newUpWorld(t, 0)
		all := []*caller{w.call("/1", -1), w.call("/2", 100), w.call("/3", 70_000)}
		w.fromIt = append(w.fromIt, b...)
		w.hear(min(len(w.fromIt), int(cut)))
		w.hear(len(w.fromIt))
		for _, c := range all {
			if c.lent {
				c.lent = false
				c.x.HandleUpstreamClosed(w.now, false)
				w.apply(c)
				c.stream.Return()
			}
			if c.ended == c.again && !c.x.Idle() {
				t.Errorf("ended %t, sent again %t: %s", c.ended, c.again, &c.x)
			}
		}
		if w.up.Lent() != 0 {
			t.Errorf("%d streams are lent", w.up.Lent())
		}
	})
}
