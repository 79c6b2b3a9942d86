package sessiontest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A sink is told what a reader reads. raw are the bytes of a body, or of another
// protocol.
type sink interface {
	head(h *head) error
	body(raw []byte) error
	whole() error
}

// A head is one as it came, with lower-case names.
type head struct {
	line   string
	fields [][2]string

	method, target string // of a request
	status         int    // of a response
}

// values are those of all fields with a name.
func (h *head) values(name string) (v []string) {
	for _, f := range h.fields {
		if f[0] == name {
			v = append(v, f[1])
		}
	}
	return v
}

// value is that of the only field with a name.
func (h *head) value(name string) string {
	if v := h.values(name); len(v) == 1 {
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

// A reader reads messages that the proxy has written, strictly and by no code of
// the proxy's: a second opinion on where they end.
type reader struct {
	sink     sink
	response bool
	bodyless bool // the sink says so at a head: an answer to HEAD

	state readerState
	lines []byte
	left  int
}

// idle: not a byte of the next message has come.
func (r *reader) idle() bool { return r.state == readHead && len(r.lines) == 0 }

// feed reads on in b.
func (r *reader) feed(b []byte) error {
	for len(b) > 0 {
		n, err := r.next(b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (r *reader) next(b []byte) (int, error) {
	switch r.state {
	case readLength, readChunk:
		return r.piece(b)
	case readClose, readTunnel:
		return len(b), r.sink.body(b)
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

func (r *reader) tooLong() error {
	if len(r.lines) > 64<<10 {
		return fmt.Errorf("a head of %d bytes", len(r.lines))
	}
	return nil
}

// piece reads on in a body with a length, or in a chunk.
func (r *reader) piece(b []byte) (int, error) {
	n := min(r.left, len(b))
	r.left -= n
	if err := r.sink.body(b[:n]); err != nil || r.left > 0 {
		return n, err
	}
	if r.state == readChunk {
		r.state = readChunkEnd
		return n, nil
	}
	r.state = readHead
	return n, r.sink.whole()
}

// line is told that r.lines ends with a line.
func (r *reader) line() error {
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
		if len(r.lines) != 2 {
			return fmt.Errorf("a trailer %q", r.lines)
		}
		r.lines, r.state = r.lines[:0], readHead
		return r.sink.whole()
	}
	r.lines = r.lines[:0]
	return nil
}

// headDone reads a head and finds out how its body ends.
func (r *reader) headDone(text string) error {
	h := &head{}
	lines := strings.Split(strings.TrimSuffix(text, "\r\n\r\n"), "\r\n")
	h.line = lines[0]
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
	r.bodyless = false
	lengths, codings := h.values("content-length"), h.values("transfer-encoding")
	switch {
	case len(lengths)+len(codings) > 1:
		return fmt.Errorf("more than one framing: %q, %q", lengths, codings)
	case len(codings) == 1 && codings[0] != "chunked":
		return fmt.Errorf("transfer coding %q", codings[0])
	}
	if err := r.sink.head(h); err != nil {
		return err
	}
	switch {
	case h.status == 101:
		r.state = readTunnel
		return nil
	case r.response && h.status < 200:
		return nil
	case r.bodyless || h.status == 204 || h.status == 304:
		return r.sink.whole()
	case len(codings) == 1:
		r.state = readChunkLine
		return nil
	case len(lengths) == 0 && r.response:
		r.state = readClose
		return nil
	case len(lengths) == 0:
		return r.sink.whole()
	}
	n, err := strconv.ParseUint(lengths[0], 10, 31)
	if err != nil {
		return fmt.Errorf("content-length %q", lengths[0])
	}
	if r.left = int(n); n == 0 {
		return r.sink.whole()
	}
	r.state = readLength
	return nil
}

func (r *reader) startLine(h *head) error {
	words := strings.SplitN(h.line, " ", 3)
	if len(words) != 3 {
		return fmt.Errorf("start line %q", h.line)
	}
	if !r.response {
		h.method, h.target = words[0], words[1]
		if words[2] != "HTTP/1.1" {
			return fmt.Errorf("request line %q", h.line)
		}
		return nil
	}
	status, err := strconv.Atoi(words[1])
	if err != nil || words[0] != "HTTP/1.1" || status < 100 || status > 599 {
		return fmt.Errorf("status line %q", h.line)
	}
	h.status = status
	return nil
}
