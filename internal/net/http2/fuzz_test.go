package http2_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/net/http1/http1test"
	"weir/internal/net/http2"
)

// FuzzServer sees that splitting what a client sends changes nothing, that the accounts of the windows are balanced,
// and that x/net's framer and decoder read from it what we read.
func FuzzServer(f *testing.F) {
	for _, r := range append(append([]row(nil), connectionFaults...), streamFaults...) {
		w := from(http2.Client)
		r.send(w)
		f.Add(bytes.TrimPrefix(w.Bytes(), []byte(xnet.ClientPreface)), uint16(40))
	}
	for _, m := range malformed {
		f.Add(bytes.TrimPrefix(from(http2.Client).head(1, true, m.pairs...).Bytes(), []byte(xnet.ClientPreface)), uint16(40))
	}
	for i := range attacks {
		w := from(http2.Client)
		for n := range 3 {
			attacks[i].send(w, n)
		}
		f.Add(bytes.TrimPrefix(w.Bytes(), []byte(xnet.ClientPreface)), uint16(60))
	}
	f.Fuzz(func(t *testing.T, in []byte, at uint16) {
		c := fuzzed(t, newServer, append([]byte(xnet.ClientPreface), in...), int(at))
		if err := within(c, theirs(in)); err != nil {
			t.Fatalf("%q: %v\nwe read %+v\nx/net reads %+v", in, err, c, theirs(in))
		}
	})
}

// FuzzClient does the same with what a server sends.
func FuzzClient(f *testing.F) {
	for _, send := range []func(w *wire){
		func(w *wire) { w.head(1, true, ":status", "200", "content-length", "1") },
		func(w *wire) {
			w.head(3, false, ":status", "103", "a", "b").head(3, false, ":status", "200").data(3, true, "abc")
		},
		func(w *wire) { w.head(3, false, ":status", "200").data(3, false, "abc").head(3, true, "x", "y") },
		func(w *wire) {
			_ = w.WriteRSTStream(3, xnet.ErrCodeRefusedStream)
			_ = w.WriteGoAway(1, 0, []byte("x"))
		},
		func(w *wire) { _ = w.WriteWindowUpdate(3, 1<<31-1); _ = w.WriteWindowUpdate(0, 5) },
	} {
		w := from(http2.Server)
		send(w)
		f.Add(w.Bytes(), uint16(20))
	}
	f.Fuzz(func(t *testing.T, in []byte, at uint16) {
		c := fuzzed(t, func() *http2.Conn { return newClient(3) }, in, int(at))
		if err := within(c, theirs(in)); err != nil {
			t.Fatalf("%q: %v\nwe read %+v\nx/net reads %+v", in, err, c, theirs(in))
		}
	})
}

// A reading is what was read: heads and trailers in order, and the bodies by stream.
type reading struct {
	heads  []string
	bodies map[uint32]string
	cut    bool // the input ends in a frame
}

// fuzzed reads in whole and in two pieces, and returns what was read.
func fuzzed(t *testing.T, open func() *http2.Conn, in []byte, at int) reading {
	c := open()
	whole := read(c, http1test.Whole(in))
	if why := c.Unbalanced(); why != "" && whole.err == nil {
		t.Fatalf("%q: %s", in, why)
	}
	if got := read(open(), http1test.SplitAt(in, min(at, len(in)))); got.String() != whole.String() {
		t.Fatalf("split at %d of %q: %s\nwhole: %s", at, in, got, whole)
	}
	r := reading{bodies: make(map[uint32]string)}
	var h http2.Head
	for c, rest := open(), in; ; {
		ev, err := c.Next(epoch, rest, &h)
		if err != nil || ev.Kind == http2.NeedMore {
			return r
		}
		rest = rest[ev.N:]
		switch ev.Kind {
		case http2.HeadDone:
			r.heads = append(r.heads, fmt.Sprint(ev.Stream, ev.EndStream, " ", start(&h), lines(h.Fields)))
		case http2.Trailers:
			r.heads = append(r.heads, fmt.Sprint(ev.Stream, ev.EndStream, " ", lines(h.Fields)))
		case http2.Data:
			r.bodies[ev.Stream] += string(ev.Data)
		}
	}
}

func start(h *http2.Head) string {
	if h.Status != 0 {
		return fmt.Sprintf("%d|", h.Status)
	}
	return fmt.Sprintf("%s %s|", h.MethodText, h.Target)
}

// theirs is what x/net reads. It knows nothing of the states of streams, and PRIORITY_UPDATE (RFC 9218), which is an
// unknown frame to us.
func theirs(in []byte) reading {
	r := reading{bodies: make(map[uint32]string)}
	fr := xnet.NewFramer(nil, bytes.NewReader(in))
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	fr.SetMaxReadFrameSize(16384)
	for {
		head, err := fr.ReadFrameHeader()
		var f xnet.Frame
		if err == nil {
			f, err = fr.ReadFrameForHeader(head)
		}
		if _, ok := err.(xnet.StreamError); ok || err != nil && head.Type == xnet.FramePriorityUpdate {
			continue
		}
		switch f := f.(type) {
		case nil:
			r.cut = err == io.ErrUnexpectedEOF
			return r
		case *xnet.MetaHeadersFrame:
			r.heads = append(r.heads, fmt.Sprint(f.StreamID, f.StreamEnded(), " ", asHTTP11(f)))
		case *xnet.DataFrame:
			r.bodies[f.StreamID] += string(f.Data())
		}
	}
}

// asHTTP11 formats a head with a Host field and one Cookie field.
func asHTTP11(f *xnet.MetaHeadersFrame) string {
	var s strings.Builder
	authority, host := "", false
	switch {
	case f.PseudoValue("status") != "":
		fmt.Fprintf(&s, "%s|", f.PseudoValue("status"))
	case f.PseudoValue("method") == "CONNECT":
		authority, host = f.PseudoValue("authority"), true
		fmt.Fprintf(&s, "CONNECT %s|", authority)
	case len(f.PseudoFields()) > 0:
		for _, p := range f.PseudoFields() {
			if p.Name == ":authority" {
				authority, host = p.Value, true
			}
		}
		fmt.Fprintf(&s, "%s %s|", f.PseudoValue("method"), f.PseudoValue("path"))
	}
	if host {
		fmt.Fprintf(&s, "host: %s|", authority)
	}
	var cookies []string
	for _, field := range f.RegularFields() {
		if field.Name == "cookie" {
			cookies = append(cookies, field.Value)
		}
	}
	request := len(f.PseudoFields()) > 0 && f.PseudoValue("status") == ""
	for _, field := range f.RegularFields() {
		switch {
		case field.Name == "host" && host:
		case field.Name == "cookie" && request && cookies == nil:
		case field.Name == "cookie" && request:
			fmt.Fprintf(&s, "cookie: %s|", strings.Join(cookies, "; "))
			cookies = nil
		default:
			fmt.Fprintf(&s, "%s: %s|", field.Name, field.Value)
		}
	}
	return s.String()
}

// within checks that x/net has read what we have.
func within(ours, theirs reading) error {
	rest := theirs.heads
	for _, h := range ours.heads {
		for len(rest) > 0 && rest[0] != h {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return fmt.Errorf("x/net has not read %q", h)
		}
		rest = rest[1:]
	}
	for id, body := range ours.bodies {
		if !strings.HasPrefix(theirs.bodies[id], body) && !theirs.cut {
			return fmt.Errorf("x/net has not read the body %q of stream %d", body, id)
		}
	}
	return nil
}
