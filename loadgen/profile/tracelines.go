package profile

import (
	"errors"
	"fmt"
	"io"
)

// lineBytesMax bounds a line of a trace, and of CSV a record with its quoted line breaks, in
// bytes without the last line break. A longer one would be kept in memory as a whole.
const lineBytesMax = 1 << 20

// boundedLines reads from r, and fails in a line that is too long. Its errors name the line.
//
// Owned by its reader.
type boundedLines struct {
	r      io.Reader
	quotes bool // line breaks may be quoted, as in CSV (RFC 4180)

	line    int // line breaks so far
	begins  int // line in which the current line or record begins
	length  int // bytes of it so far
	quoted  bool
	comment bool
}

// Read implements io.Reader.
func (b *boundedLines) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	for i, c := range p[:n] {
		if !b.admits(c) {
			return i, fmt.Errorf("line %d: it is longer than %d bytes", b.begins+1, lineBytesMax)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("line %d: %w", b.begins+1, err)
	}
	return n, err
}

// admits accepts the next byte, unless it makes a line too long.
func (b *boundedLines) admits(c byte) bool {
	switch {
	case c == '\n' && !b.quoted:
		b.line++
		b.begins, b.length, b.comment = b.line, 0, false
		return true
	case c == '\n':
		b.line++
	case c == '#' && b.length == 0:
		b.comment = true // in which quotes are like other characters
	case c == '"' && b.quotes && !b.comment:
		b.quoted = !b.quoted // also between the two quotes that stand for one
	}
	b.length++
	return b.length <= lineBytesMax
}
