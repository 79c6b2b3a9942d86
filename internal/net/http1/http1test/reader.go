package http1test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A Sink receives the results of a Reader. raw is a part of a body, or of another protocol.
type Sink interface {
	Head(h *Head) error
	Body(raw []byte) error
	Whole() error
}

// A Head is a head with its field names in lower case.
type Head struct {
	Line   string
	fields [][2]string

	Method, Target string // of a request
	Status         int    // of a response
}

// Values returns the values of all fields with a name.
func (h *Head) Values(name string) (v []string) {
	for _, f := range h.fields {
		if f[0] == name {
			v = append(v, f[1])
		}
	}
	return v
}

// Value returns the value of the only field with a name.
func (h *Head) Value(name string) string {
	if v := h.Values(name); len(v) == 1 {
		return v[0]
	}
	return ""
}

type readerState uint8

const (
	readHead readerState = iota
	readLength
	readChunkLine
	readChunk
	readChunkEnd
	readTrailer
	readClose
	readTunnel
)

// A Reader reads messages strictly and does not use package http1, so it determines their ends
// independently.
type Reader struct {
	Sink     Sink
	Response bool
	Bodyless bool   // set by the Sink at a head: an answer to HEAD
	Trailers string // lines of the trailer section of the message that is whole

	state readerState
	lines []byte
	left  int
}

// UntilClose reports whether the end of the connection ends the body.
func (r *Reader) UntilClose() bool { return r.state == readClose }

// Close ends such a body.
func (r *Reader) Close() error {
	r.state = readHead
	return r.Sink.Whole()
}

// InTunnel reports whether another protocol follows.
func (r *Reader) InTunnel() bool { return r.state == readTunnel }

// Tunnel says that another protocol follows.
func (r *Reader) Tunnel() { r.state = readTunnel }

// Idle reports whether no byte of the next message was read.
func (r *Reader) Idle() bool { return r.state == readHead && len(r.lines) == 0 }

// Feed reads b.
func (r *Reader) Feed(b []byte) error {
	for len(b) > 0 {
		n, err := r.next(b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (r *Reader) next(b []byte) (int, error) {
	switch r.state {
	case readLength, readChunk:
		return r.piece(b)
	case readClose, readTunnel:
		return len(b), r.Sink.Body(b)
	}
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		r.lines = append(r.lines, b...)
		return len(b), r.tooLong()
	}
	r.lines = append(r.lines, b[:i+1]...)
	if !bytes.HasSuffix(r.lines, []byte("\r\n")) {
		return 0, fmt.Errorf("a line ends without CR: %q", r.lines)
	}
	return i + 1, r.line()
}

func (r *Reader) tooLong() error {
	if len(r.lines) > 64<<10 {
		return fmt.Errorf("a head of %d bytes", len(r.lines))
	}
	return nil
}

// piece reads a part of a body with a length, or of a chunk.
func (r *Reader) piece(b []byte) (int, error) {
	n := min(r.left, len(b))
	r.left -= n
	if err := r.Sink.Body(b[:n]); err != nil || r.left > 0 {
		return n, err
	}
	if r.state == readChunk {
		r.state = readChunkEnd
		return n, nil
	}
	r.state = readHead
	return n, r.Sink.Whole()
}

// line handles the last line of r.lines.
func (r *Reader) line() error {
	switch r.state {
	case readHead:
		if !bytes.HasSuffix(r.lines, []byte("\r\n\r\n")) {
			return r.tooLong()
		}
		text := string(r.lines)
		r.lines = r.lines[:0]
		return r.headDone(text)
	case readChunkLine:
		n, err := strconv.ParseUint(string(r.lines[:len(r.lines)-2]), 16, 31)
		if err != nil {
			return fmt.Errorf("chunk size %q", r.lines)
		}
		r.left, r.state = int(n), readChunk
		if n == 0 {
			r.state = readTrailer
		}
	case readChunkEnd:
		if len(r.lines) != 2 {
			return fmt.Errorf("behind a chunk %q", r.lines)
		}
		r.state = readChunkLine
	case readTrailer:
		if end := bytes.HasSuffix(r.lines, []byte("\r\n\r\n")); !end && len(r.lines) != 2 {
			return r.tooLong()
		}
		r.Trailers = string(r.lines[:len(r.lines)-2])
		r.lines, r.state = r.lines[:0], readHead
		return r.Sink.Whole()
	}
	r.lines = r.lines[:0]
	return nil
}

// headDone parses a head and determines its framing.
func (r *Reader) headDone(text string) error {
	h := &Head{}
	r.Trailers = ""
	lines := strings.Split(strings.TrimSuffix(text, "\r\n\r\n"), "\r\n")
	h.Line = lines[0]
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return fmt.Errorf("field line %q", line)
		}
		h.fields = append(h.fields, [2]string{strings.ToLower(name), strings.TrimSpace(value)})
	}
	if err := r.startLine(h); err != nil {
		return err
	}
	r.Bodyless = false
	lengths, codings := h.Values("content-length"), h.Values("transfer-encoding")
	switch {
	case len(lengths)+len(codings) > 1:
		return fmt.Errorf("more than one framing: %q, %q", lengths, codings)
	case len(codings) == 1 && codings[0] != "chunked":
		return fmt.Errorf("transfer coding %q", codings[0])
	}
	if err := r.Sink.Head(h); err != nil {
		return err
	}
	switch {
	case h.Status == 101:
		r.state = readTunnel
		return nil
	case r.Response && h.Status < 200:
		return nil
	case r.Bodyless || h.Status == 204 || h.Status == 304:
		return r.Sink.Whole()
	case len(codings) == 1:
		r.state = readChunkLine
		return nil
	case len(lengths) == 0 && r.Response:
		r.state = readClose
		return nil
	case len(lengths) == 0:
		return r.Sink.Whole()
	}
	n, err := strconv.ParseUint(lengths[0], 10, 31)
	if err != nil {
		return fmt.Errorf("content-length %q", lengths[0])
	}
	if r.left = int(n); n == 0 {
		return r.Sink.Whole()
	}
	r.state = readLength
	return nil
}

func (r *Reader) startLine(h *Head) error {
	words := strings.SplitN(h.Line, " ", 3)
	if len(words) != 3 {
		return fmt.Errorf("start line %q", h.Line)
	}
	if !r.Response {
		h.Method, h.Target = words[0], words[1]
		if words[2] != "HTTP/1.1" {
			return fmt.Errorf("request line %q", h.Line)
		}
		return nil
	}
	status, err := strconv.Atoi(words[1])
	if err != nil || words[0] != "HTTP/1.1" || status < 100 || status > 599 {
		return fmt.Errorf("status line %q", h.Line)
	}
	h.Status = status
	return nil
}
