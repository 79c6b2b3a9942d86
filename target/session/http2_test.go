package session

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/net/cycle"
)

// spoken returns what a client of HTTP/2 sends: requests, calls and resets.
func spoken() []byte {
	var out, block bytes.Buffer
	out.WriteString(xnet.ClientPreface)
	f, encoder := xnet.NewFramer(&out, nil), hpack.NewEncoder(&block)
	head := func(id uint32, end bool, path string, fields ...string) {
		block.Reset()
		fields = append([]string{":method", "POST", ":scheme", "http", ":authority", "x", ":path", path}, fields...)
		for i := 0; i < len(fields); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		_ = f.WriteHeaders(xnet.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true,
			EndStream: end})
	}
	_ = f.WriteSettings(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 4})
	head(1, true, "/api/test")
	head(3, false, "/model", "expect", "100-continue")
	head(5, false, "/weir.Echo/Stream", "content-type", "application/grpc")
	_ = f.WriteData(3, true, []byte("{}"))
	_ = f.WriteData(5, false, []byte("\x00\x00\x00\x00\x03abc\x00\x00\x00\x00\x01"))
	head(7, false, "/weir.Echo/Unary", "content-type", "application/grpc")
	_ = f.WriteData(7, true, []byte("\x00\x00\x00\x00\x00"))
	_ = f.WriteData(5, true, []byte("d"))
	head(9, true, "/api/test")
	_ = f.WriteRSTStream(9, xnet.ErrCodeCancel)
	_ = f.WriteWindowUpdate(5, 100)
	head(11, false, "/nowhere")
	head(11, true, "/trailers")
	return out.Bytes()
}

// play feeds stream to an HTTP2 in pieces of n bytes. It answers what is asked before the next piece, or every second
// ask only after that.
func play(t *testing.T, stream []byte, n int, late bool) (sent []byte, answered int) {
	var sh LoopState
	var waiting []*Stream
	c := NewHTTP2(epoch, &sh, func() *Stream { return &Stream{} })
	answer := func(s *Stream) {
		switch {
		case s.closed:
		case s.Await() == AwaitOwn:
			s.HandleReply(epoch, 200, nil, s.Raw())
		case s.Await() == AwaitService:
			s.HandleAnswer(epoch, map[bool]int{false: 200, true: 500}[late && s.id%4 == 1])
		}
	}
	var unread []byte
	for len(stream) > 0 && sh.Close == cycle.CloseNone {
		n := min(n, len(stream))
		unread, stream = append(unread, stream[:n]...), stream[n:]
		unread = unread[c.HandleData(epoch, unread):]
		for _, s := range waiting {
			answer(s)
		}
		waiting = waiting[:0]
		for i := 0; i < len(sh.Asking); i++ {
			if s := sh.Asking[i]; late && i%2 == 1 {
				waiting = append(waiting, s)
			} else {
				answer(s)
			}
		}
		sh.Asking = sh.Asking[:0]
		c.HandleTurn(epoch)
		asked := 0
		for _, s := range c.Streams() {
			if s.Await() != AwaitNone {
				asked++
			}
		}
		if asked != c.asked || asked > len(waiting) || len(c.Streams()) > 128 {
			t.Fatalf("%d of %d streams ask, %d are known, %d wait", asked, len(c.Streams()), c.asked, len(waiting))
		}
	}
	return sh.Out, len(sh.Answered)
}

// Whatever comes, nothing panics, no ask is lost, and what is sent are frames.
func FuzzHTTP2(f *testing.F) {
	f.Add(spoken(), uint16(1), false)
	f.Add(spoken(), uint16(1000), true)
	f.Fuzz(func(t *testing.T, stream []byte, n uint16, late bool) {
		sent, _ := play(t, stream, max(1, int(n)), late)
		frames := xnet.NewFramer(nil, bytes.NewReader(sent))
		for {
			if _, err := frames.ReadFrame(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("sent an invalid frame: %v", err)
			}
		}
	})
}

// Requests are answered however their bytes are split. What is reset before it was answered need not be.
func TestHTTP2InPieces(t *testing.T) {
	for n := 1; n < 300; n++ {
		if _, answered := play(t, spoken(), n, false); answered < 5 || answered > 6 {
			t.Errorf("in pieces of %d bytes %d requests are answered", n, answered)
		}
	}
}

// A client has the time for the rest of a frame from the last frame that was complete.
func TestDeadlineOfFrame(t *testing.T) {
	var sh LoopState
	var frames bytes.Buffer
	c := NewHTTP2(epoch, &sh, func() *Stream { return &Stream{} })
	frames.WriteString(xnet.ClientPreface)
	f := xnet.NewFramer(&frames, nil)
	_ = f.WriteSettings()
	for range 2 {
		_ = f.WritePing(false, [8]byte{})
	}
	all := frames.Bytes()
	read, second := 0, len(all)-17 // where the second PING begins
	for i, step := range []struct{ seconds, received, left int }{
		{0, second - 17, 75}, {1, second - 12, 10}, {2, second - 10, 9}, {8, second + 1, 10}, {9, second + 2, 9},
		{12, len(all), 75},
	} {
		now := epoch.Add(time.Duration(step.seconds) * time.Second)
		read += c.HandleData(now, all[read:step.received])
		c.HandleTurn(now)
		if left := c.Deadline().Sub(now); left != time.Duration(step.left)*time.Second {
			t.Errorf("step %d: the deadline is in %v, want %d s", i, left, step.left)
		}
	}
}

func TestRequestOfHTTP2DoesNotAllocateMuch(t *testing.T) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/api/test"}, {":authority", "x"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	var sh LoopState
	c := NewHTTP2(epoch, &sh, func() *Stream { return &Stream{} })
	c.HandleData(epoch, []byte(xnet.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	var out bytes.Buffer
	f, id := xnet.NewFramer(&out, nil), uint32(1)
	got := testing.AllocsPerRun(1000, func() {
		out.Reset()
		_ = f.WriteHeaders(xnet.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true,
			EndStream: true})
		id += 2
		c.HandleData(epoch, out.Bytes())
		sh.Asking[0].HandleAnswer(epoch, 200)
		c.HandleTurn(epoch)
		sh.Reset()
	})
	if got > 3 {
		t.Errorf("%v allocations, want the stream and at most two of the decoder's", got)
	}
}
