package http2_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"

	"weir/internal/net/http2"
)

// An attack is what a client sends again and again. It ends the connection after at most so many times at once.
type attack struct {
	name string
	send func(w *wire, i int)
	most int
	kind http2.Glitch
}

// calm is the burst of glitches, and control that of frames that carry no message: 10, without the first SETTINGS.
const (
	calm    = 100
	control = calm + 10
)

var attacks = []attack{
	{"rapid reset (CVE-2023-44487)", func(w *wire, i int) { _ = w.get(id(i)).WriteRSTStream(id(i), xnet.ErrCodeCancel) },
		calm, http2.GlitchReset},
	{"malformed requests (CVE-2025-8671)", func(w *wire, i int) { w.head(id(i), true, request("GET", "")...) },
		calm, http2.GlitchOwnReset},
	{"bodies that are too long", func(w *wire, i int) {
		w.head(id(i), false, request("POST", "/", "content-length", "1")...).data(id(i), true, "ab")
	}, calm, http2.GlitchOwnReset},
	{"trailers that do not end (CVE-2026-73513)", func(w *wire, i int) {
		w.head(id(i), false, request("POST", "/")...).head(id(i), false, "x", "y")
	}, calm, http2.GlitchOwnReset},
	{"windows of streams beyond 2^31-1", func(w *wire, i int) { _ = w.get(id(i)).WriteWindowUpdate(id(i), 1<<31-1) },
		calm, http2.GlitchOwnReset},
	{"streams that are refused", func(w *wire, i int) { w.get(id(i)) }, calm + 128, http2.GlitchRefused},
	{"heads that are too large", func(w *wire, i int) {
		w.head(id(i), true, request("GET", "/", slices10("x", strings.Repeat("y", 2500))...)...)
		_ = w.WriteRSTStream(id(i), xnet.ErrCodeCancel)
	}, calm, http2.GlitchFields},
	{"heads that are decoded and too large", func(w *wire, i int) {
		w.head(id(i), true, request("GET", "/", "x", strings.Repeat("y", 17_000))...)
		_ = w.WriteRSTStream(id(i), xnet.ErrCodeCancel)
	}, calm, http2.GlitchFields},
	{"empty CONTINUATION", func(w *wire, i int) {
		b := w.fields(request("GET", "/")...)
		w.raw(xnet.FrameHeaders, xnet.FlagHeadersEndStream, id(i), string(b))
		_ = w.WriteContinuation(id(i), false, nil)
		_ = w.WriteContinuation(id(i), true, nil)
	}, calm/2 + 1, http2.GlitchContinuation},
	{"SETTINGS (CVE-2019-9515)", func(w *wire, _ int) { _ = w.WriteSettings() }, control, http2.GlitchControl},
	{"SETTINGS_HEADER_TABLE_SIZE (CVE-2026-97032)", func(w *wire, i int) {
		_ = w.WriteSettings(xnet.Setting{ID: xnet.SettingHeaderTableSize, Val: uint32(i % 2 * 4096)})
	}, control, http2.GlitchControl},
	{"PING (CVE-2019-9512)", func(w *wire, _ int) { _ = w.WritePing(false, [8]byte{}) }, control, http2.GlitchControl},
	{"PING ACK", func(w *wire, _ int) { _ = w.WritePing(true, [8]byte{}) }, control, http2.GlitchControl},
	{"PRIORITY (CVE-2019-9513)", func(w *wire, i int) { w.raw(xnet.FramePriority, 0, 5, "\x00\x00\x00\x01\x00") },
		control, http2.GlitchControl},
	{"unknown frames", func(w *wire, i int) { w.raw(0x0a, 0, 5, "") }, control, http2.GlitchControl},
	{"GOAWAY", func(w *wire, i int) { _ = w.WriteGoAway(0, xnet.ErrCodeNo, nil) }, control, http2.GlitchControl},
	{"WINDOW_UPDATE", func(w *wire, i int) { _ = w.WriteWindowUpdate(0, 1) }, control, http2.GlitchControl},
	{"WINDOW_UPDATE of a stream (CVE-2019-9511)", func(w *wire, i int) {
		if i == 0 {
			w.get(1)
		}
		_ = w.WriteWindowUpdate(1, 1)
	}, control, http2.GlitchControl},
	{"WINDOW_UPDATE of a closed stream", func(w *wire, i int) {
		if i == 0 {
			_ = w.get(1).WriteRSTStream(1, xnet.ErrCodeCancel)
		}
		_ = w.WriteWindowUpdate(1, 1)
	}, control, http2.GlitchControl},
	{"streams after GOAWAY", func(w *wire, i int) { w.get(id(1<<29 + i)) }, control, http2.GlitchControl},
	{"empty DATA (CVE-2019-9518)", func(w *wire, i int) {
		if i == 0 {
			w.head(1, false, request("POST", "/")...)
		}
		w.data(1, false, "")
	}, control, http2.GlitchControl},
	{"DATA with more padding than data", func(w *wire, i int) {
		if i == 0 {
			w.head(1, false, request("POST", "/")...)
		}
		_ = w.WriteDataPadded(1, false, []byte("x"), make([]byte, 255))
	}, control, http2.GlitchControl},
	{"HEADERS on a stream that we have reset", func(w *wire, i int) {
		if i == 0 {
			w.head(1, false, request("POST", "")...)
		}
		w.head(1, false, "x", "y")
	}, control, http2.GlitchControl},
}

// play plays an attack, each repetition after a pause, until the connection ends or it was played n times. It returns
// how many times it was, and how many requests were read.
func (a *attack) play(t *testing.T, n int, pause time.Duration) (times, heads int, err error) {
	c := http2.New(http2.Server, nil, epoch)
	w := from(http2.Client)
	var h http2.Head
	now := epoch
	for i := range n {
		a.send(w, i)
		rest := w.Bytes()
		for {
			ev, err := c.Next(now, rest, &h)
			if err != nil {
				if n := c.Glitches(); n[a.kind] == 0 {
					t.Errorf("%s: glitches %v, none of %s", a.name, n, a.kind)
				}
				return i, heads, err
			}
			if rest = rest[ev.N:]; ev.Kind == http2.NeedMore {
				break
			}
			if ev.Kind == http2.HeadDone {
				heads++
			}
		}
		if len(rest) > 0 {
			t.Fatalf("%s: %d bytes were not read", a.name, len(rest))
		}
		c.AppendControl(nil)
		w.Reset()
		now = now.Add(pause)
	}
	return n, heads, nil
}

// Each attack ends the connection with ENHANCE_YOUR_CALM, soon if it is fast, and is tolerated if it is slow.
func TestAttacks(t *testing.T) {
	for i := range attacks {
		a := &attacks[i]
		times, _, err := a.play(t, 100_000, 0)
		var fault *http2.Error
		if !errors.As(err, &fault) || fault.Code != http2.EnhanceYourCalm {
			t.Errorf("%s: ended by %v", a.name, err)
		}
		if times > a.most || times < a.most/3 {
			t.Errorf("%s: ended after %d times, want %d", a.name, times, a.most)
		}
		if a.kind == http2.GlitchRefused {
			continue // its first 128 streams never end
		}
		if times, _, err = a.play(t, 3*control, time.Second/10); err != nil {
			t.Errorf("%s ten times a second: ended after %d times by %v", a.name, times, err)
		}
	}
}

// A client that resets its requests at 1000 a second gets no more than the burst and the rate of glitches.
func TestRapidResetIsBounded(t *testing.T) {
	_, heads, err := attacks[0].play(t, 1_000_000, time.Millisecond)
	if err == nil || heads > 104 { // 100, and 33 a second for a tenth of a second
		t.Errorf("%d requests were read, %v", heads, err)
	}
}

// MadeYouReset: what only a client sends that has gone wrong ends the connection at once.
func TestOnlyBrokenClients(t *testing.T) {
	for name, send := range map[string]func(w *wire){
		"WINDOW_UPDATE by 0":     func(w *wire) { _ = w.get(1).WriteWindowUpdate(1, 0) },
		"DATA after the end":     func(w *wire) { w.get(1).data(1, false, "x") },
		"HEADERS after the end":  func(w *wire) { w.get(1).get(1) },
		"PRIORITY of wrong size": func(w *wire) { w.get(1).raw(xnet.FramePriority, 0, 1, "1234") },
		"an endless field block": func(w *wire) {
			w.raw(xnet.FrameHeaders, 0, 1, "\x82")
			for range 1000 {
				_ = w.WriteContinuation(1, false, nil)
			}
		},
	} {
		w := from(http2.Client)
		send(w)
		if got := readAllWays(t, newServer, w.Bytes()); got.err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A field block that decodes to much more than its size makes the connection allocate little, whatever it repeats: an
// entry of the table, cookies, names without values, fields of the static table (CVE-2016-6581, CVE-2026-49975).
func TestBombs(t *testing.T) {
	for name, send := range map[string]func(w *wire, id uint32){
		"an entry of the table": func(w *wire, id uint32) {
			b := string(w.fields(request("GET", "/", "x", strings.Repeat("y", 3900))...))
			w.raw(xnet.FrameHeaders, 5, id, b+strings.Repeat("\xbe", 10_000))
		},
		"cookies of the table": func(w *wire, id uint32) {
			b := string(w.fields(request("GET", "/", "cookie", "a=b")...))
			w.raw(xnet.FrameHeaders, 5, id, b+strings.Repeat("\xbe", 10_000))
		},
		"fields of the static table": func(w *wire, id uint32) {
			w.raw(xnet.FrameHeaders, 5, id, string(w.fields(request("GET", "/")...))+strings.Repeat("\x90", 10_000))
		},
		"literals": func(w *wire, id uint32) {
			w.raw(xnet.FrameHeaders, 5, id, string(w.fields(request("GET", "/")...))+strings.Repeat("\x00\x01x\x00", 3_000))
		},
		"entries that drive out each other": func(w *wire, id uint32) {
			w.raw(xnet.FrameHeaders, 5, id, string(w.fields(request("GET", "/")...))+strings.Repeat("\x40\x01x\x00", 3_000))
		},
	} {
		conns := make([]*http2.Conn, 16)
		heads := make([]http2.Head, len(conns))
		w := from(http2.Client)
		send(w, 1)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range conns {
			conns[i] = http2.New(http2.Server, nil, epoch)
			var ev http2.Event
			var err error
			for rest := w.Bytes(); err == nil && ev.Kind != http2.BadHead; rest = rest[ev.N:] {
				if ev, err = conns[i].Next(epoch, rest, &heads[i]); err == nil && ev.Kind == http2.HeadDone {
					t.Fatalf("%s: the request is read", name)
				}
			}
			if n := len(heads[i].Fields); n > 116 { // 100, and 16 that proxies add
				t.Errorf("%s: %d fields are kept", name, n)
			}
		}
		runtime.ReadMemStats(&after)
		if each := int(after.TotalAlloc-before.TotalAlloc) / len(conns); each > 512<<10 {
			t.Errorf("%s: %d KiB are allocated for each connection", name, each>>10)
		}
	}
}

// The frames that answer are bounded, if what is sent is never read.
func TestUnreadAnswers(t *testing.T) {
	c := http2.New(http2.Server, &http2.Limits{GlitchBurst: -1}, epoch)
	w := from(http2.Client)
	for range 5000 {
		_ = w.WritePing(false, [8]byte{})
	}
	got := read(c, [][]byte{w.Bytes()})
	if got.err == nil || len(got.out) > (64<<10)/17+5 || len(got.out) < (64<<10)/17 {
		t.Errorf("ended by %v after %d frames", got.err, len(got.out))
	}
}

// Frames that carry no message are free if they answer what we send: gRPC measures the round trip by a PING for each
// DATA frame, and clients with small windows update both windows.
func TestAnswersAreFree(t *testing.T) {
	c := http2.New(http2.Server, nil, epoch)
	w := from(http2.Client)
	w.get(1)
	read(c, [][]byte{w.Bytes()})
	out, err := c.AppendResponse(nil, 1, 200, nil, false)
	for range 10_000 {
		var n int
		if out, n = c.AppendData(out[:0], 1, []byte("x"), false); n != 1 || err != nil {
			t.Fatalf("%d bytes were appended, %v", n, err)
		}
		w.Reset()
		_ = w.WritePing(false, [8]byte{})
		_ = w.WriteWindowUpdate(0, 1)
		_ = w.WriteWindowUpdate(1, 1)
		if got := read(c, [][]byte{w.Bytes()}); got.err != nil {
			t.Fatal(got)
		}
	}
	if n := c.Glitches(); n != [len(n)]uint32{} {
		t.Errorf("glitches %v", n)
	}
}

// So is what Go's client sends when it has not read for a while: both windows for each 4 KiB of many frames.
func TestUpdatesOfLargeFramesAreFree(t *testing.T) {
	c := http2.New(http2.Server, nil, epoch)
	w := from(http2.Client)
	_ = w.WriteWindowUpdate(0, 1<<30)
	const streams, size = 100, 64 << 10
	for i := range streams {
		w.get(id(i))
	}
	read(c, [][]byte{w.Bytes()})
	w.Reset()
	var out []byte
	for i := range streams {
		out, _ = c.AppendResponse(out[:0], id(i), 200, nil, false)
		out, _ = c.AppendData(out, id(i), make([]byte, size), false)
		for range size / (4 << 10) {
			_ = w.WriteWindowUpdate(0, 4<<10)
			_ = w.WriteWindowUpdate(id(i), 4<<10)
		}
	}
	got := read(c, [][]byte{w.Bytes()})
	if n := c.Glitches(); got.err != nil || n != [len(n)]uint32{} {
		t.Errorf("%v, glitches %v", got.err, n)
	}
}

// A client may end an upload whose response is complete.
func TestResetOfAnswered(t *testing.T) {
	c := http2.New(http2.Server, nil, epoch)
	w := from(http2.Client)
	for i := range 1000 {
		w.head(id(i), false, request("POST", "/")...)
		read(c, [][]byte{w.Bytes()})
		if _, err := c.AppendResponse(nil, id(i), 429, nil, true); err != nil {
			t.Fatal(err)
		}
		w.Reset()
		_ = w.WriteRSTStream(id(i), xnet.ErrCodeCancel)
		if got := read(c, [][]byte{w.Bytes()}); len(got.events) != 1 || c.Streams() != 0 {
			t.Fatal(got)
		}
		w.Reset()
	}
	if n := c.Glitches(); n != [len(n)]uint32{} {
		t.Errorf("glitches %v", n)
	}
}

// A client whose resets are still being worked on gets no more streams.
func TestWorking(t *testing.T) {
	c := newServer() // 4 streams
	w := from(http2.Client)
	w.get(1).get(3)
	_ = w.WriteRSTStream(1, xnet.ErrCodeCancel)
	_ = w.WriteRSTStream(3, xnet.ErrCodeCancel)
	read(c, [][]byte{w.Bytes()})
	c.SetWorking(2)
	w.Reset()
	w.get(5).get(7).get(9)
	if got := read(c, [][]byte{w.Bytes()}); !slices.Equal(got.out, []string{"RST_STREAM 9 REFUSED_STREAM"}) {
		t.Error(got)
	}
	if n := c.Glitches()[http2.GlitchRefused]; n > 0 { // the client cannot know what is worked on
		t.Errorf("%d glitches, want 0", n)
	}
}

// Identifiers are not used up: before that the client is told to open another connection.
func TestIdentifiersEnd(t *testing.T) {
	c := newServer()
	w := from(http2.Client)
	read(c, [][]byte{w.Bytes()})
	c.SetLastID(1<<30 - 3)
	w.Reset()
	w.get(1<<30 - 1).get(1<<30 + 1).get(1<<30 + 3)
	got := read(c, [][]byte{w.Bytes()})
	if !slices.Equal(got.out, []string{"GOAWAY 1073741825 NO_ERROR"}) || len(got.events) != 2 {
		t.Error(got)
	}
	client := newClient(0)
	client.SetLastID(1<<30 + 1)
	if client.Free() != 0 {
		t.Error("a client opens streams without end")
	}
}

// A connection closes in two steps: after the first GOAWAY it still reads requests, after the last one only those
// that it names, and a message that the client had begun to send is ignored.
func TestGoAway(t *testing.T) {
	c := newServer()
	w := from(http2.Client)
	w.get(1)
	read(c, [][]byte{w.Bytes()})
	out := c.AppendGoAway(nil, false, http2.NoError)
	w.Reset()
	w.get(3)
	if got := read(c, [][]byte{w.Bytes()}); len(got.events) != 1 {
		t.Errorf("after the first GOAWAY: %s", got)
	}
	out = c.AppendGoAway(out, true, http2.NoError)
	if got := frames(out); !slices.Equal(got, []string{"GOAWAY 2147483647 NO_ERROR", "GOAWAY 3 NO_ERROR"}) {
		t.Errorf("sent %q", got)
	}
	w.Reset()
	w.head(5, false, request("POST", "/", "x", "y")...).data(5, false, "abc").head(5, true, "sum", "1")
	_ = w.WriteRSTStream(5, xnet.ErrCodeCancel)
	got := read(c, [][]byte{w.Bytes()})
	if got.err != nil || len(got.events) != 0 || len(got.out) != 0 || c.Streams() != 2 {
		t.Errorf("after the last GOAWAY: %s, %d streams", got, c.Streams())
	}
}

// What a connection remembers does not grow with what it has seen.
func TestMemoryIsBounded(t *testing.T) {
	c := http2.New(http2.Server, &http2.Limits{GlitchBurst: -1}, epoch)
	w := from(http2.Client)
	for i := range 5000 {
		w.head(id(2*i), false, request("POST", "")...).get(id(2*i + 1))
		_ = w.WriteRSTStream(id(2*i+1), xnet.ErrCodeCancel)
		read(c, [][]byte{w.Bytes()})
		w.Reset()
	}
	if streams, resets := c.Remembered(); streams > 16 || resets != 256 || c.Streams() != 0 {
		t.Errorf("memory for %d streams, %d resets; %d streams", streams, resets, c.Streams())
	}
	w.data(id(0), false, "x").head(id(2), true, "x", "y")
	if got := read(c, [][]byte{w.Bytes()}); got.err != nil || len(got.events) != 0 {
		t.Errorf("frames on streams that were reset long ago: %s", got)
	}
	if c.Unbalanced() != "" {
		t.Error(c.Unbalanced())
	}
}
