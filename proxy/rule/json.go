package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// A jsonReader turns JSON into nodes, one value after the other, so that a file
// of many clients need not be in memory as nodes. It reads data that is known to
// be valid, of which encoding/json assures itself first: its own tokens take
// twice as long and do not say where they are.
//
// Owned by one call of a reading function.
type jsonReader struct {
	j    *judge
	data []byte
	pos  int
	line int
}

// newJSONReader returns a reader at the begin of data, or ok = false when it is
// not valid JSON.
func (j *judge) newJSONReader(data []byte) (r *jsonReader, ok bool) {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		offset := len(data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = max(0, int(syntax.Offset)-1)
		}
		j.fault(1+bytes.Count(data[:offset], []byte{'\n'}), "", "not valid JSON: %s", err)
		return nil, false
	}
	return &jsonReader{j: j, data: data, line: 1}, true
}

// peek passes over what is between values and returns the byte behind it.
func (r *jsonReader) peek() byte {
	for ; ; r.pos++ {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\r', ',', ':':
		case '\n':
			r.line++
		default:
			return c
		}
	}
}

// value reads the next value.
func (r *jsonReader) value(path string, depth int) node {
	n := node{}
	switch first := r.peek(); first {
	case '"':
		n.kind, n.line, n.word = kindText, r.line, r.text()
	case '{', '[':
		n.line = r.line
		if depth == depthMax {
			r.j.fault(n.line, path, "nested deeper than %d levels", depthMax)
		}
		r.pos++
		n.kind = kindList
		if first == '{' {
			n.kind = kindObject
			n.names = make([]name, 0, 4)
		}
		n.kids = make([]node, 0, 4)
		for c := r.peek(); c != '}' && c != ']'; c = r.peek() {
			if n.kind == kindObject {
				n.names = append(n.names, name{r.text(), r.line})
			}
			n.kids = append(n.kids, r.value(path, depth+1))
		}
		r.pos++
	default:
		n.kind, n.line, n.word = scalarKinds[first], r.line, r.scalar()
	}
	return n
}

// scalarKinds tells by its first byte what a scalar is that is no string; those
// that are not here are numbers.
var scalarKinds = func() (t [256]kind) {
	for c := range t {
		t[c] = kindNumber
	}
	t['n'], t['t'], t['f'] = kindNull, kindBool, kindBool
	return t
}()

// text reads a string.
func (r *jsonReader) text() string {
	start := r.pos
	escaped := false
	for r.pos++; r.data[r.pos] != '"'; r.pos++ {
		if r.data[r.pos] == '\\' {
			escaped = true
			r.pos++
		}
	}
	r.pos++
	if !escaped {
		return string(r.data[start+1 : r.pos-1])
	}
	var text string
	if err := json.Unmarshal(r.data[start:r.pos], &text); err != nil {
		panic("bug: rule: a string of valid JSON: " + err.Error())
	}
	return text
}

// scalar reads what is neither a string nor nested.
func (r *jsonReader) scalar() string {
	start := r.pos
	for r.pos < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,]}"), r.data[r.pos]) < 0 {
		r.pos++
	}
	return string(r.data[start:r.pos])
}

// readText returns the document in data, which is JSON or YAML.
func (j *judge) readText(data []byte) (n node, ok bool) {
	switch {
	case len(data) > fileBytesMax:
		j.fault(0, "", "must be at most %d bytes, is %d", fileBytesMax, len(data))
		return n, false
	case !j.validUTF8(data):
		return n, false
	case !json.Valid(data):
		return j.readYAML(data)
	}
	r, _ := j.newJSONReader(data)
	n = r.value("", 0)
	return n, len(j.faults) == 0
}

// validUTF8 notes the first line that is not UTF-8.
func (j *judge) validUTF8(data []byte) bool {
	if utf8.Valid(data) {
		return true
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if !utf8.Valid(text) {
			break
		}
	}
	j.fault(line, "", "must be UTF-8")
	return false
}

// isNumber says whether a word is a number as JSON writes it (RFC 8259
// section 6).
func isNumber(word string) bool {
	return word != "" && (word[0] == '-' || word[0] >= '0' && word[0] <= '9') && json.Valid([]byte(word))
}
