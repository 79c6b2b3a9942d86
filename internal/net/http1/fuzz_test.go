package http1_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/internal/test/testkit"
)

// seedBytesMax keeps the seeds small: long ones are for TestRequestCorpus.
const seedBytesMax = 4 << 10

// seed adds the inputs of all corpora by add.
func seed(f *testing.F, add func(in []byte, response bool)) {
	requests, responses := http1test.Requests(f), http1test.Responses(f)
	for i := range requests {
		if in, err := requests[i].Bytes(); err == nil && len(in) <= seedBytesMax {
			add(in, false)
		}
	}
	for i := range responses {
		if in, err := responses[i].Bytes(); err == nil && len(in) <= seedBytesMax {
			add(in, true)
		}
	}
}

// FuzzSplit sees that splitting the input changes nothing, and that a Reader
// keeps its contract, which the feeder watches.
func FuzzSplit(f *testing.F) {
	seed(f, func(in []byte, response bool) { f.Add(in, response, uint8(0), uint16(len(in)/2)) })
	f.Fuzz(func(t *testing.T, in []byte, response bool, method uint8, at uint16) {
		talk := http1test.Conversation{Response: response, Method: http1.Method(method % 10), Closed: method%2 == 0,
			Limits: &http1.Limits{HeadBytes: 512, Fields: 8}}
		want := testkit.Must(talk.ReadAllWays(in))(t)
		if got := talk.Read(http1test.SplitAt(in, min(int(at), len(in)))); got.String() != want.String() {
			t.Fatalf("split at %d: %s\nwhole: %s", at, got, want)
		}
	})
}

// FuzzRequest sees that we are never more lenient than net/http: a request
// which we read, it reads too, as the same request with the same rest.
//
// Exceptions, because net/http as a library differs on purpose or in ways that
// do not matter here:
//   - empty lines before a request line (RFC 9112 2.2), which it does not skip;
//   - a Trailer field: it refuses some names there, we ignore the field;
//   - blanks before the ';' of a chunk extension (RFC 9112 7.1.1), which it
//     does not know;
//   - an absolute-form target whose host it refuses: RFC 3986 allows IPvFuture,
//     for example;
//   - it invents Cache-Control for Pragma: no-cache.
func FuzzRequest(f *testing.F) {
	seed(f, func(in []byte, response bool) {
		if !response {
			f.Add(in)
		}
	})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := http1.NewRequestReader(nil)
		for {
			m, n := readFuzzed(&r, in)
			if !m.Complete {
				return
			}
			if err := sameRequest(m, bytes.TrimLeft(in, "\r\n"), in[n:]); err != nil {
				t.Fatalf("%q: %v\nwe read %s", in, err, m)
			}
			in = in[n:]
		}
	})
}

// readFuzzed reads one message from in and returns it and how many bytes it
// has, interim responses as messages of their own.
func readFuzzed(r *http1.Reader, in []byte) (m *http1test.Message, n int) {
	m = new(http1test.Message)
	var h http1.Head
	for {
		ev, err := r.Next(in[n:], &h)
		if err != nil {
			return m, n
		}
		n += int(ev.N)
		switch ev.Kind {
		case http1.NeedMore:
			if n == len(in) && m.Head.Framing == http1.BodyUntilClose {
				m.Complete = true
			}
			return m, n
		case http1.HeadDone:
			m.Head = http1test.CloneHead(&h)
			if h.Status != 0 && h.Status < 200 {
				m.Complete = true
				return m, n
			}
		case http1.Data:
			m.Body += string(ev.Data)
		default:
			m.Complete = true
			return m, n
		}
	}
}

func sameRequest(m *http1test.Message, in, rest []byte) error {
	h := &m.Head
	if _, ok := h.Value(http1.FieldTrailer); ok {
		return nil
	}
	br := bufio.NewReaderSize(bytes.NewReader(in), len(in)+16)
	req, err := http.ReadRequest(br)
	if err != nil {
		if h.Form == http1.FormAbsolute || h.Form == http1.FormAuthority {
			return nil
		}
		return fmt.Errorf("net/http refuses: %w", err)
	}
	switch {
	case req.Method != string(h.MethodText):
		return fmt.Errorf("method %q", req.Method)
	case req.RequestURI != string(h.Target):
		return fmt.Errorf("target %q", req.RequestURI)
	case req.ProtoMajor != 1 || req.ProtoMinor != h.Minor:
		return fmt.Errorf("version %s", req.Proto)
	case req.Host != string(h.Host):
		return fmt.Errorf("host %q", req.Host)
	case h.Minor < 2 && req.Close == h.KeepAlive:
		return fmt.Errorf("close %t", req.Close)
	}
	if err := sameFields(h, req.Header); err != nil {
		return err
	}
	return sameBody(m, in, rest, req.Body, br)
}

// sameFields compares the fields, those that net/http takes out left out.
func sameFields(h *http1.Head, theirs http.Header) error {
	ours := http.Header{}
	for _, f := range h.Fields {
		if f.ID != http1.FieldHost || h.Status != 0 {
			ours.Add(textproto.CanonicalMIMEHeaderKey(string(f.Name)), string(f.Value))
		}
	}
	for _, taken := range []string{"Transfer-Encoding", "Cache-Control", "Content-Length", "Connection"} {
		ours.Del(taken)
		theirs.Del(taken)
	}
	if len(ours) != len(theirs) {
		return fmt.Errorf("fields %q", theirs)
	}
	for name, values := range ours {
		if !slices.Equal(values, theirs[name]) {
			return fmt.Errorf("fields %s: %q", name, theirs[name])
		}
	}
	return nil
}

// sameBody compares the body and what follows it.
func sameBody(m *http1test.Message, in, rest []byte, theirs io.Reader, br *bufio.Reader) error {
	if bytes.Contains(in, []byte(" ;")) || bytes.Contains(in, []byte("\t;")) {
		return nil
	}
	body, err := io.ReadAll(theirs)
	if err != nil {
		return fmt.Errorf("net/http reads the body: %w", err)
	}
	if string(body) != m.Body {
		return fmt.Errorf("body %q", body)
	}
	left, err := io.ReadAll(br)
	if err != nil || !bytes.Equal(left, rest) {
		return fmt.Errorf("rest %q, %w", left, err)
	}
	return nil
}

// FuzzResponse does the same with responses. Exceptions: a Trailer field, and
// blanks in chunk-size lines, as above; what follows a switch of protocols.
func FuzzResponse(f *testing.F) {
	seed(f, func(in []byte, response bool) {
		if response {
			f.Add(in, false)
			f.Add(in, true)
		}
	})
	f.Fuzz(func(t *testing.T, in []byte, head bool) {
		method := map[bool]http1.Method{false: http1.GET, true: http1.HEAD}[head]
		r := http1.NewResponseReader(nil)
		r.ResponseTo(method)
		for {
			m, n := readFuzzed(&r, in)
			if !m.Complete {
				return
			}
			if err := sameResponse(m, method, in, in[n:]); err != nil {
				t.Fatalf("answer to %s %q: %v\nwe read %s", method, in, err, m)
			}
			if m.Head.Framing == http1.BodyUntilClose || m.Head.Status == http.StatusSwitchingProtocols {
				return
			}
			in = in[n:]
		}
	})
}

func sameResponse(m *http1test.Message, method http1.Method, in, rest []byte) error {
	h := &m.Head
	if _, ok := h.Value(http1.FieldTrailer); ok || h.Status == http.StatusSwitchingProtocols {
		return nil
	}
	br := bufio.NewReaderSize(bytes.NewReader(in), len(in)+16)
	resp, err := http.ReadResponse(br, &http.Request{Method: method.String()})
	if err != nil {
		return fmt.Errorf("net/http refuses: %w", err)
	}
	if resp.StatusCode != h.Status || resp.ProtoMajor != 1 || resp.ProtoMinor != h.Minor {
		return fmt.Errorf("status line %s %s", resp.Proto, resp.Status)
	}
	if err := sameFields(h, resp.Header); err != nil {
		return err
	}
	return sameBody(m, in, rest, resp.Body, br)
}
