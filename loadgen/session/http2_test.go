package session

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/net/http1"
)

// A target is the other side of an HTTP2, whose frames a test writes.
type target struct {
	bytes.Buffer
	*xnet.Framer
	block bytes.Buffer
	hpack *hpack.Encoder
}

func newTarget(settings ...xnet.Setting) *target {
	p := &target{}
	p.Framer, p.hpack = xnet.NewFramer(&p.Buffer, nil), hpack.NewEncoder(&p.block)
	_ = p.WriteSettings(settings...)
	return p
}

func (p *target) head(id uint32, end bool, fields ...string) *target {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = p.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = p.WriteHeaders(xnet.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndHeaders: true,
		EndStream: end})
	return p
}

func (p *target) data(id uint32, end bool, text string) *target {
	_ = p.WriteData(id, end, []byte(text))
	return p
}

// frames describes the frames of a client after its preface.
func frames(out []byte) string {
	r := bytes.NewReader(bytes.TrimPrefix(out, []byte(xnet.ClientPreface)))
	f := xnet.NewFramer(nil, r)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var lines []string
	for {
		switch frame, err := f.ReadFrame(); frame := frame.(type) {
		case nil:
			if r.Len() > 0 {
				lines = append(lines, err.Error())
			}
			return strings.Join(lines, "\n")
		case *xnet.MetaHeadersFrame:
			line := fmt.Sprintf("headers %d", frame.StreamID)
			for _, field := range frame.Fields {
				line += " " + field.Name + "=" + field.Value
			}
			if frame.StreamEnded() {
				line += " end"
			}
			lines = append(lines, line)
		case *xnet.DataFrame:
			lines = append(lines, fmt.Sprintf("data %d %d bytes end=%t", frame.StreamID, len(frame.Data()), frame.StreamEnded()))
		case *xnet.RSTStreamFrame:
			lines = append(lines, fmt.Sprintf("reset %d %v", frame.StreamID, frame.ErrCode))
		}
	}
}

const (
	request = "GET /a?b HTTP/1.1\r\nHost: x:1\r\nAccept: */*\r\n\r\n"
	upload  = "POST /a HTTP/1.1\r\nX-A: b\r\nhost: x\r\nContent-Length: 4\r\n\r\nbody"
)

// opened returns the state of a connection whose target has sent its settings.
func opened(settings *LoopSettings, p *target) *HTTP2 {
	c := NewHTTP2(at(0), settings)
	c.HandleData(at(0), p.Bytes())
	p.Reset()
	c.AppendControl()
	c.Out = c.Out[:0]
	return c
}

func newTerms() *LoopSettings {
	return &LoopSettings{Method: http1.GET, KeepAlive: true, Timeout: time.Second, Scheme: "http", Streams: 3}
}

// outcomes describes what has ended, by the index of the request.
func outcomes(t *LoopSettings) string {
	var all []string
	for _, x := range t.Ended {
		o := &x.Outcome
		word := fmt.Sprintf("%d %s %d %s", x.Index, o.Class(), o.Status, o.Cause())
		if x.Again {
			word = fmt.Sprintf("%d again", x.Index)
		}
		all = append(all, strings.TrimSpace(word))
	}
	return strings.Join(all, ", ")
}

func TestRequestsOfHTTP2(t *testing.T) {
	settings, p := newTerms(), newTarget(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 3})
	c := NewHTTP2(at(0), settings)
	if c.Ready() || c.Free() {
		t.Error("ready before the target has sent its settings")
	}
	c = opened(settings, p)
	for i, r := range []string{request, upload, request} {
		if !c.Free() {
			t.Fatalf("no request %d", i)
		}
		c.HandleSent(at(0), at(0), []byte(r), false, false)
	}
	if c.Free() {
		t.Error("more requests than streams")
	}
	get := " :method=GET :scheme=http :path=/a?b :authority=x:1 accept=*/* end"
	if got, want := frames(c.Out), "headers 1"+get+
		"\nheaders 3 :method=POST :scheme=http :path=/a :authority=x x-a=b content-length=4"+
		"\ndata 3 3 bytes end=false\nheaders 5"+get; got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
	c.Out = nil
	_ = p.WriteWindowUpdate(3, 1)
	c.HandleData(at(0), p.Bytes())
	if got := frames(c.Out); got != "data 3 1 bytes end=true" {
		t.Errorf("then\n%s", got)
	}
}

// A body is sent in order, however little room the target makes for it, and the memory of a large one is not kept.
func TestBodyInPieces(t *testing.T) {
	settings, p := newTerms(), newTarget(xnet.Setting{ID: xnet.SettingInitialWindowSize, Val: 0})
	c := opened(settings, p)
	body := make([]byte, bodyBytesKept+1000)
	for i := range body {
		body[i] = byte(i % 251)
	}
	c.HandleSent(at(0), at(0), append([]byte("POST /a HTTP/1.1\r\nHost: x\r\n\r\n"), body...), false, false)
	c.Out = nil
	for i := uint32(1); i < 300; i++ {
		_ = p.WriteWindowUpdate(1, i)
	}
	c.HandleData(at(0), p.Bytes())
	var sent []byte
	for f := xnet.NewFramer(nil, bytes.NewReader(c.Out)); ; {
		frame, err := f.ReadFrame()
		if err != nil {
			break
		}
		sent = append(sent, frame.(*xnet.DataFrame).Data()...)
	}
	if !bytes.Equal(sent, body) {
		t.Errorf("%d bytes are sent, want %d", len(sent), len(body))
	}
	p.Reset()
	c.HandleData(at(1), p.head(1, true, ":status", "200").Bytes())
	settings.Recycle()
	if n := cap(settings.exchange().kept); n > bodyBytesKept {
		t.Errorf("%d bytes are kept", n)
	}
}

// What a target does becomes the outcome of each of three requests, the first of which is repeated no more.
func TestOutcomesOfHTTP2(t *testing.T) {
	for _, c := range []struct {
		name string
		does func(p *target)
		want string
		over bool
	}{
		{"nothing", func(*target) {}, "", false},
		{"answers, in any order", func(p *target) {
			p.head(3, false, ":status", "200").data(3, false, "O").head(5, true, ":status", "429").data(3, true, "K")
			p.head(1, false, ":status", "103").head(1, true, ":status", "503", "x-weir-reason", "gate")
		}, "2 rate_limited 429, 1 success 200, 0 shed 503", false},
		{"trailers", func(p *target) { p.head(1, false, ":status", "500").head(1, true, "a", "b") },
			"0 error 500 http_5xx", false},
		{"no end", func(p *target) { p.head(1, false, ":status", "200").data(1, false, "O") }, "", false},
		{"an invalid answer", func(p *target) { p.head(1, true, "a", "b").head(3, true, ":status", "200") },
			"0 error 0 bad_response, 1 success 200", false},
		{"an invalid frame", func(p *target) { _ = p.WriteRawFrame(xnet.FrameData, 0, 0, nil) },
			"0 error 0 bad_response, 1 error 0 bad_response, 2 error 0 bad_response", true},
		{"resets", func(p *target) { _ = p.WriteRSTStream(3, xnet.ErrCodeInternal) }, "1 error 0 reset", false},
		{"refused streams", func(p *target) {
			_ = p.WriteRSTStream(1, xnet.ErrCodeRefusedStream)
			_ = p.WriteRSTStream(3, xnet.ErrCodeRefusedStream)
		}, "0 error 0 reset, 1 again", false},
		{"GOAWAY", func(p *target) { _ = p.WriteGoAway(3, xnet.ErrCodeNo, nil) }, "2 again", false},
		{"GOAWAY and an end", func(p *target) {
			p.head(3, true, ":status", "200")
			_ = p.WriteGoAway(3, xnet.ErrCodeNo, nil)
			p.head(1, true, ":status", "200")
		}, "1 success 200, 2 again, 0 success 200", true},
		{"an answer before the end of the upload", func(p *target) {
			p.head(1, true, ":status", "413")
			_ = p.WriteRSTStream(1, xnet.ErrCodeNo)
		}, "0 error 413 http_4xx", false},
	} {
		settings, p := newTerms(), newTarget()
		s := opened(settings, p)
		for i := range 3 {
			s.HandleSent(at(0), at(0), []byte(request), i == 0, false).Index = uint64(i)
		}
		c.does(p)
		if n := s.HandleData(at(1), p.Bytes()); n != p.Len() {
			t.Errorf("%s: %d of %d bytes are read", c.name, n, p.Len())
		}
		if got := outcomes(settings); got != c.want || s.Over() != c.over {
			t.Errorf("%s: %s, over %t\nwant %s, %t", c.name, got, s.Over(), c.want, c.over)
		}
	}
}

// grpc-status decides what became of a call.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		does func(p *target)
		want string
	}{
		{"ok", func(p *target) {
			p.head(1, false, ":status", "200").data(1, false, "m").head(1, true, "grpc-status", "0")
		},
			"0 success 200"},
		{"refused", func(p *target) { p.head(1, true, ":status", "200", "grpc-status", "8") }, "0 rate_limited 429"},
		{"unavailable", func(p *target) { p.head(1, true, ":status", "200", "grpc-status", "14") },
			"0 error 503 http_5xx"},
		{"shed", func(p *target) {
			p.head(1, true, ":status", "200", "grpc-status", "14", "x-weir-reason", "gate")
		}, "0 shed 503"},
		{"an unknown code", func(p *target) { p.head(1, true, ":status", "200", "grpc-status", "17") },
			"0 error 500 http_5xx"},
		{"no number", func(p *target) { p.head(1, true, ":status", "200", "grpc-status", "ok") },
			"0 error 0 bad_response"},
		{"no trailers", func(p *target) { p.head(1, false, ":status", "200").data(1, true, "m") },
			"0 error 0 bad_response"},
		{"no call", func(p *target) { p.head(1, true, ":status", "429") }, "0 rate_limited 429"},
		{"no call, shed", func(p *target) { p.head(1, true, ":status", "503", "x-weir-reason", "gate") }, "0 shed 503"},
		{"no call, 204", func(p *target) { p.head(1, true, ":status", "204") }, "0 error 0 bad_response"},
		{"no call, 302", func(p *target) { p.head(1, true, ":status", "302") }, "0 error 0 bad_response"},
	} {
		settings, p := newTerms(), newTarget()
		settings.GRPC = true
		s := opened(settings, p)
		s.HandleSent(at(0), at(0), []byte(upload), false, false)
		c.does(p)
		s.HandleData(at(1), p.Bytes())
		if got := outcomes(settings); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Each request has its time, and a late answer to one that has ended is ignored.
func TestTimeoutsOfHTTP2(t *testing.T) {
	settings, p := newTerms(), newTarget()
	c := opened(settings, p)
	for i := range 3 {
		c.HandleSent(at(100*i), at(0), []byte(request), false, false).Index = uint64(i)
	}
	c.Out = nil
	if d := c.Deadline(); !d.Equal(at(1000)) {
		t.Errorf("the first deadline is %v", d)
	}
	c.HandleExpired(at(1100))
	if got, want := outcomes(settings), "0 error 0 timeout, 1 error 0 timeout"; got != want ||
		!c.Deadline().Equal(at(1200)) {
		t.Errorf("%s, want %s; the next deadline is %v", got, want, c.Deadline())
	}
	if got := frames(c.Out); got != "reset 1 CANCEL\nreset 3 CANCEL" {
		t.Errorf("sent\n%s", got)
	}
	settings.Recycle()
	p.head(1, false, ":status", "200").data(1, true, "late").head(5, true, ":status", "204")
	c.HandleData(at(1150), p.Bytes())
	if got := outcomes(settings); got != "2 success 204" || c.InFlight() != 0 || !c.Deadline().IsZero() {
		t.Errorf("then %s", got)
	}
}

// A target from which nothing has come since a request was sent may have gone without a sign, so after the timeout
// of that no more are sent on the connection. Those in progress keep their time.
func TestSilentConnection(t *testing.T) {
	for _, c := range []struct {
		name  string
		heard int // ms
		free  bool
	}{{"silent", 0, false}, {"heard before it was sent", 100, false}, {"heard since", 101, true}} {
		settings, p := newTerms(), newTarget()
		s := opened(settings, p)
		_ = p.WritePing(true, [8]byte{})
		if c.heard > 0 {
			s.HandleData(at(c.heard), p.Bytes())
		}
		p.Reset()
		s.HandleSent(at(100), at(0), []byte(request), false, false)
		s.HandleSent(at(200), at(0), []byte(request), false, false).Index = 1
		s.HandleExpired(at(1100))
		if s.Free() != c.free || s.Over() {
			t.Errorf("%s: free %t, want %t; over %t", c.name, s.Free(), c.free, s.Over())
		}
		s.HandleData(at(1150), p.head(3, true, ":status", "200").Bytes())
		if got := outcomes(settings); got != "0 error 0 timeout, 1 success 200" || s.Over() == c.free {
			t.Errorf("%s: %s, over %t", c.name, got, s.Over())
		}
	}
}

// A request is repeated after the end of a connection that was idle, if nothing says that it has arrived.
func TestEndOfHTTP2(t *testing.T) {
	for _, c := range []struct {
		name          string
		method        http1.Method
		last, crosses bool
		begun         bool
		after         int // ms
		orderly       bool
		want          string
	}{
		{"crossed", http1.GET, false, true, false, 10, true, "0 again"},
		{"crossed, broken", http1.GET, false, true, false, 10, false, "0 again"},
		{"later", http1.GET, false, true, false, 100, true, "0 error 0 closed"},
		{"not idempotent", http1.POST, false, true, false, 10, true, "0 error 0 closed"},
		{"often enough", http1.GET, true, true, false, 10, true, "0 error 0 closed"},
		{"not idle before", http1.GET, false, false, false, 10, false, "0 error 0 reset"},
		{"begun", http1.GET, false, true, true, 10, false, "0 error 0 reset"},
	} {
		settings, p := newTerms(), newTarget()
		settings.Method = c.method
		s := opened(settings, p)
		s.HandleSent(at(0), at(0), []byte(request), c.last, c.crosses)
		if c.begun {
			s.HandleData(at(1), p.head(1, false, ":status", "200").Bytes())
		}
		s.HandleClosed(at(c.after), c.orderly)
		if got := outcomes(settings); got != c.want || !s.Over() {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Fields beyond what the target accepts fail the request, not the connection.
func TestFieldsBeyondSettings(t *testing.T) {
	settings, p := newTerms(), newTarget(xnet.Setting{ID: xnet.SettingMaxHeaderListSize, Val: 10})
	c := opened(settings, p)
	c.HandleSent(at(0), at(0), []byte(request), false, false)
	if got := outcomes(settings); got != "0 error 0 head_too_large" || c.InFlight() != 0 || len(c.Out) > 0 {
		t.Errorf("%s; sent %s", got, frames(c.Out))
	}
	if o := settings.Ended[0].Outcome; !o.Start.IsZero() {
		t.Errorf("it was sent at %v", o.Start)
	}
}
