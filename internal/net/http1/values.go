package http1

import (
	"bytes"
	"iter"
	"strconv"
)

// Values yields the values of the fields of a name, in lower case, in a list of field lines, as those of
// AppendField are.
func Values(lines []byte, name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(lines) > 0 {
			var line []byte
			line, lines, _ = bytes.Cut(lines, []byte("\r\n"))
			if n := len(name); len(line) > n && line[n] == ':' && EqualFold(line[:n], name) &&
				!yield(bytes.TrimSpace(line[n+1:])) {
				return
			}
		}
	}
}

// FieldLines yields the fields in b, which consists of well-formed field lines (AppendField) and is
// read up to its end or an empty line.
func FieldLines(b []byte) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		var f Field
		for n, _ := fieldLine(b, &f); n > 0 && yield(f); n, _ = fieldLine(b, &f) {
			b = b[n:]
		}
	}
}

// MaxForwards returns how often an OPTIONS request may be forwarded (RFC 9110 section 7.6.2). It is -1
// without a bound: for other methods, and if the field is missing or invalid.
func (h *Head) MaxForwards() int {
	if h.Method != OPTIONS {
		return -1
	}
	v, ok := h.Value(FieldMaxForwards)
	if !ok || len(v) > 9 {
		return -1
	}
	n, err := strconv.ParseUint(string(v), 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}
