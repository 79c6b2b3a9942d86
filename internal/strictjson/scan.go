package strictjson

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A scanner reads the tokens of RFC 8259 from data. It only knows bytes; what
// the tokens should be is the walk's business.
type scanner struct {
	data []byte
	pos  int // of the next byte
}

// A syntaxError says that the bytes are not JSON.
type syntaxError struct {
	what string // "a value", "a comma or the end of the array", …
	pos  int
}

// peek skips white space and returns the next byte; 0 at the end of the data
// (a NUL byte is not JSON anywhere outside of a value, so the two do not mix).
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return s.data[s.pos]
		}
	}
	return 0
}

// take consumes c if it is next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.pos >= len(s.data) {
		return false
	}
	s.pos++
	return true
}

// literal consumes word, one of true, false and null.
func (s *scanner) literal(word string) *syntaxError {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return &syntaxError{"a value", s.pos}
	}
	s.pos += len(word)
	return nil
}

// number consumes a number and returns it as written.
//
//	number = [ "-" ] int [ frac ] [ exp ]      RFC 8259 section 6
func (s *scanner) number() (string, *syntaxError) {
	start := s.pos
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	zero := s.pos < len(s.data) && s.data[s.pos] == '0'
	n := s.digits()
	if n == 0 || zero && n > 1 {
		return "", &syntaxError{"a number", start}
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if s.digits() == 0 {
			return "", &syntaxError{"a digit after the point", s.pos}
		}
	}
	if s.pos < len(s.data) && (s.data[s.pos] == 'e' || s.data[s.pos] == 'E') {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if s.digits() == 0 {
			return "", &syntaxError{"a digit in the exponent", s.pos}
		}
	}
	return string(s.data[start:s.pos]), nil
}

// digits consumes digits and returns how many there were.
func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}

// string consumes a string, from quote to quote, and returns what it means.
// Bytes that are not UTF-8 and halves of surrogate pairs are refused: decoders
// differ in what they make of them.
func (s *scanner) string() (string, *syntaxError) {
	s.pos++ // the opening quote, which the caller saw
	var out []byte
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return string(out), nil
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case c < ' ':
			return "", &syntaxError{"an escape for the control character", s.pos}
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n == 1 {
				return "", &syntaxError{"valid UTF-8", s.pos}
			}
			out = append(out, s.data[s.pos:s.pos+n]...)
			s.pos += n
		}
	}
	return "", &syntaxError{"a closing quote", s.pos}
}

// escape consumes one escape sequence, both halves of a surrogate pair
// together, and returns the character.
func (s *scanner) escape() (rune, *syntaxError) {
	start := s.pos
	if s.pos+1 >= len(s.data) {
		return 0, &syntaxError{"an escape sequence", start}
	}
	c := s.data[s.pos+1]
	if c != 'u' {
		i := bytes.IndexByte([]byte(`"\/bfnrt`), c)
		if i < 0 {
			return 0, &syntaxError{"an escape sequence", start}
		}
		s.pos += 2
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	r, ok := s.hex()
	if ok && utf16.IsSurrogate(r) {
		low, lowOK := s.hex()
		r = utf16.DecodeRune(r, low)
		ok = lowOK && r != utf8.RuneError
	}
	if !ok {
		return 0, &syntaxError{"an escape sequence", start}
	}
	return r, nil
}

// hex consumes \uXXXX.
func (s *scanner) hex() (rune, bool) {
	if len(s.data)-s.pos < 6 || s.data[s.pos] != '\\' || s.data[s.pos+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.data[s.pos+2:s.pos+6]), 16, 16)
	if err != nil {
		return 0, false
	}
	s.pos += 6
	return rune(n), true
}

// message describes a syntax error for people: what was expected, what is
// there, and where, in lines and columns counted from 1.
func (s *scanner) message(e *syntaxError) string {
	before := s.data[:min(e.pos, len(s.data))]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	there := "the end"
	if e.pos < len(s.data) {
		r, _ := utf8.DecodeRune(s.data[e.pos:])
		there = strconv.QuoteRune(r)
	}
	return fmt.Sprintf("not valid JSON: line %d, column %d: want %s, have %s", line, column, e.what, there)
}
