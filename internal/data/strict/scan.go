package strict

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// depthMax bounds the nesting of lists and objects.
	depthMax = 32
	// valuesMax bounds the values of a document: each takes about a hundred bytes of memory,
	// and possibly only two bytes of text.
	valuesMax = 1 << 19
	// fewKids is the initial capacity for members or elements.
	fewKids = 4
)

// A scanner turns JSON (RFC 8259) into nodes.
//
// Owned by one call of a reading function.
type scanner struct {
	data  []byte
	pos   int // of the next byte
	line  int // of pos
	depth int
	count int // of values so far
	made  int32
}

// A syntaxError says that the bytes are not JSON.
type syntaxError struct {
	want   string // what was expected: "a value", "a comma or the end of the list", …
	pos    int
	path   string // of the invalid value
	beyond string // valid JSON that exceeds this bound
}

// within prepends a step to the path of e.
func (e *syntaxError) within(step string) *syntaxError {
	if e != nil {
		e.path = join(step, e.path)
	}
	return e
}

// expected returns an error about the next byte.
func (s *scanner) expected(want string) *syntaxError { return &syntaxError{want: want, pos: s.pos} }

// fault describes a syntax error; columns are counted from 1.
func (s *scanner) fault(e *syntaxError) (line int, path, message string) {
	before := s.data[:min(e.pos, len(s.data))]
	line = 1 + bytes.Count(before, []byte{'\n'})
	if e.beyond != "" {
		return line, e.path, e.beyond
	}
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	there := "the end"
	if e.pos < len(s.data) {
		r, _ := utf8.DecodeRune(s.data[e.pos:])
		there = strconv.QuoteRune(r)
	}
	return line, e.path, "column " + strconv.Itoa(column) + ": want " + e.want + ", have " + there
}

// document reads data, which must be one value, into n, and reuses the memory of n.
func (s *scanner) document(n *Node) *syntaxError {
	if err := s.value(n); err != nil {
		return err
	}
	return s.end()
}

// end checks that nothing follows the value.
func (s *scanner) end() *syntaxError {
	if s.peek(); s.pos < len(s.data) {
		return s.expected("nothing after the value")
	}
	return nil
}

// whole returns a syntax error as a Fault of the whole document.
func (s *scanner) whole(e *syntaxError) Fault {
	line, path, message := s.fault(e)
	if e.beyond == "" {
		message = "not valid JSON: line " + strconv.Itoa(line) + ", " + message
	}
	return Fault{Path: path, Message: message}
}

// peek skips white space and returns the next byte, or 0 at the end of the data. (A NUL byte is not
// valid JSON between tokens.)
func (s *scanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r':
		case '\n':
			s.line++
		default:
			return c
		}
	}
	return 0
}

// take consumes c if it is the next byte.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.pos >= len(s.data) {
		return false
	}
	s.pos++
	return true
}

// value reads the next value into n.
func (s *scanner) value(n *Node) (err *syntaxError) {
	c := s.peek()
	*n = Node{Line: s.line, start: s.pos, Names: n.Names[:0], Children: n.Children[:0]}
	if s.count++; s.count > valuesMax {
		return &syntaxError{pos: s.pos, beyond: "more than " + strconv.Itoa(valuesMax) + " values"}
	}
	switch {
	case c == '{':
		n.Kind = Object
		err = s.nested(n, func(i int) *syntaxError { return s.member(n) }, '}', "a comma or the end of the object")
	case c == '[':
		n.Kind = List
		err = s.nested(n, func(i int) *syntaxError {
			if err := s.value(s.another(n)); err != nil {
				return err.within(ElementPath("", i))
			}
			return nil
		}, ']', "a comma or the end of the list")
	case c == '"':
		n.Kind = Text
		n.Word, err = s.string()
	case c == '-', '0' <= c && c <= '9':
		n.Kind = Number
		err = s.number()
	case c == 't':
		n.Kind, err = Bool, s.literal("true")
	case c == 'f':
		n.Kind, err = Bool, s.literal("false")
	case c == 'n':
		err = s.literal("null")
	default:
		err = s.expected("a value")
	}
	n.end = s.pos
	if n.Kind < Text {
		n.Word = s.data[n.start:n.end]
	}
	return err
}

// nested reads the elements of a list or the members of an object.
func (s *scanner) nested(n *Node, each func(i int) *syntaxError, end byte, want string) *syntaxError {
	if s.depth == depthMax {
		return &syntaxError{pos: s.pos, beyond: "nested deeper than " + strconv.Itoa(depthMax) + " levels"}
	}
	s.pos++
	s.depth++
	defer func() { s.depth-- }()
	if s.take(end) {
		return nil
	}
	if n.Children == nil {
		n.Children = make([]Node, 0, fewKids)
		s.made += fewKids
	}
	for i := 0; ; i++ {
		if err := each(i); err != nil {
			return err
		}
		if s.take(end) {
			return nil
		}
		if !s.take(',') {
			return s.expected(want)
		}
	}
}

// member reads a member of an object.
func (s *scanner) member(n *Node) *syntaxError {
	name, err := s.name()
	if err != nil {
		return err
	}
	if n.Names == nil {
		n.Names = make([]Name, 0, fewKids)
		s.made += fewKids
	}
	room := cap(n.Names)
	n.Names = append(n.Names, name)
	s.made += int32(cap(n.Names) - room)
	if err := s.value(s.another(n)); err != nil {
		return err.within(nameStep(string(name.Word)))
	}
	return nil
}

// another adds a kid to n, and reuses the memory of an earlier one if possible.
func (s *scanner) another(n *Node) *Node {
	if room := cap(n.Children); len(n.Children) < room {
		n.Children = n.Children[:len(n.Children)+1]
	} else {
		n.Children = append(n.Children, Node{})
		s.made += int32(cap(n.Children) - room)
	}
	return &n.Children[len(n.Children)-1]
}

// name reads a member's name and the colon after it.
func (s *scanner) name() (name Name, err *syntaxError) {
	if s.peek() != '"' {
		return name, s.expected("a name in quotes")
	}
	name.Line = s.line
	if name.Word, err = s.string(); err == nil && !s.take(':') {
		err = s.expected("a colon")
	}
	return name, err
}

// literal consumes word, one of true, false and null.
func (s *scanner) literal(word string) *syntaxError {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return s.expected("a value")
	}
	s.pos += len(word)
	return nil
}

// number consumes a number.
//
//	number = [ "-" ] int [ frac ] [ exp ]      RFC 8259 section 6
func (s *scanner) number() *syntaxError {
	start := s.pos
	s.oneOf("-")
	zero := s.pos < len(s.data) && s.data[s.pos] == '0'
	if n := s.digits(); n == 0 || zero && n > 1 {
		return &syntaxError{want: "a number", pos: start}
	}
	if s.oneOf(".") && s.digits() == 0 {
		return s.expected("a digit after the point")
	}
	if s.oneOf("eE") {
		if s.oneOf("+-"); s.digits() == 0 {
			return s.expected("a digit in the exponent")
		}
	}
	return nil
}

// oneOf consumes the next byte if it is one of some.
func (s *scanner) oneOf(some string) bool {
	if s.pos == len(s.data) || bytes.IndexByte([]byte(some), s.data[s.pos]) < 0 {
		return false
	}
	s.pos++
	return true
}

// digits consumes digits and returns how many there were.
func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}

// string consumes a string, from quote to quote, and returns its text. Invalid UTF-8 and halves of
// surrogate pairs are refused, because decoders interpret them differently.
func (s *scanner) string() ([]byte, *syntaxError) {
	s.pos++ // the opening quote, which the caller saw
	var out []byte
	plain := s.pos // beginning of the text that is not in out
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			word := s.data[plain:s.pos:s.pos]
			if out != nil {
				word = append(out, word...)
			}
			s.pos++
			return word, nil
		case c == '\\':
			out = append(out, s.data[plain:s.pos]...)
			r, err := s.escape()
			if err != nil {
				return nil, err
			}
			out, plain = utf8.AppendRune(out, r), s.pos
		case c < ' ':
			return nil, s.expected("an escape for the control character")
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n == 1 {
				return nil, s.expected("valid UTF-8")
			}
			s.pos += n
		}
	}
	return nil, s.expected("a closing quote")
}

// escape consumes one escape sequence, or both of a surrogate pair, and returns the character.
func (s *scanner) escape() (rune, *syntaxError) {
	wrong := s.expected("an escape sequence")
	if s.pos+1 >= len(s.data) {
		return 0, wrong
	}
	c := s.data[s.pos+1]
	if c != 'u' {
		i := bytes.IndexByte([]byte(`"\/bfnrt`), c)
		if i < 0 {
			return 0, wrong
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
		return 0, wrong
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
