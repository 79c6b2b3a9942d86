package plan

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A segment is a part of a request: either fixed bytes, or something that differs from
// request to request.
type segment struct {
	kind    segmentKind
	text    []byte   // of a literal
	options [][]byte // of a pick
	low     int64    // of a random number: the least
	span    uint64   // of a random number: how many there are; 0 stands for 2⁶⁴
	slot    uint64   // of a random number or pick: which one of the request
}

type segmentKind uint8

const (
	segmentLiteral segmentKind = iota
	segmentCounter             // the number of the request in the schedule, from 1
	segmentRandom              // a whole number within bounds
	segmentPick                // one of several texts
	segmentLength              // the length of the request's body
	segmentPrefix              // what precedes the body as a message of gRPC
)

// A templateError says what is wrong with a template.
type templateError struct {
	column  int // in characters, from 1
	problem string
}

func (e *templateError) Error() string { return fmt.Sprintf("column %d: %s", e.column, e.problem) }

// A compiler turns texts with templates into segments:
//
//	{{counter}}          the number of the request in the schedule, from 1
//	{{random 1 1000}}    a whole number, both bounds included
//	{{pick "a" "b"}}     one of the texts; \" and \\ stand for " and \
//
// {{pick "{{"}} is how to write {{. What is drawn depends on the seed, the
// number of the request, and the place of the template; so requests of
// different shards differ, and the same test draws the same again.
type compiler struct {
	text  string
	pos   int
	slots uint64 // given away
	out   []segment
}

// compile returns the segments of text. The error is a *templateError.
func (c *compiler) compile(text string) ([]segment, error) {
	c.text, c.pos, c.out = text, 0, nil
	for c.pos < len(text) {
		n := strings.Index(text[c.pos:], "{{")
		if n < 0 {
			n = len(text) - c.pos
		}
		if n > 0 {
			c.out = append(c.out, segment{text: []byte(text[c.pos : c.pos+n])})
			c.pos += n
			continue
		}
		if err := c.template(); err != nil {
			return nil, err
		}
	}
	return c.out, nil
}

func (c *compiler) fail(at int, format string, args ...any) error {
	return &templateError{utf8.RuneCountInString(c.text[:at]) + 1, fmt.Sprintf(format, args...)}
}

// template reads a template, from its braces on.
func (c *compiler) template() error {
	start := c.pos
	c.pos += len("{{")
	c.space()
	at := c.pos
	word := c.word()
	var s segment
	var err error
	switch word {
	case "counter":
		s.kind = segmentCounter
	case "random":
		s, err = c.random()
	case "pick":
		s, err = c.pick()
	case "":
		err = c.fail(at, `{{ must be followed by counter, random or pick; {{ itself is written {{pick "{{"}}`)
	default:
		err = c.fail(at, "unknown template %q; allowed: counter, random and pick", word)
	}
	if err != nil {
		return err
	}
	c.space()
	if !strings.HasPrefix(c.text[c.pos:], "}}") {
		if c.pos == len(c.text) {
			return c.fail(start, "the template is not closed by }}")
		}
		return c.fail(c.pos, "%s must be followed by }}", usages[word])
	}
	c.pos += len("}}")
	c.out = append(c.out, s)
	return nil
}

// usages show how templates are written.
var usages = map[string]string{"counter": "counter", "random": "random LOW HIGH", "pick": `pick "A" "B"`}

func (c *compiler) space() {
	c.pos = len(c.text) - len(strings.TrimLeft(c.text[c.pos:], " "))
}

func (c *compiler) word() string {
	start := c.pos
	for c.pos < len(c.text) && !strings.ContainsRune(" {}\"", rune(c.text[c.pos])) {
		c.pos++
	}
	return c.text[start:c.pos]
}

func (c *compiler) random() (segment, error) {
	var bounds [2]int64
	for i, name := range [...]string{"lowest", "highest"} {
		c.space()
		at := c.pos
		v, err := strconv.ParseInt(c.word(), 10, 64)
		if err != nil {
			return segment{}, c.fail(at, "the %s number must be a whole number of 64 bits, as in {{random 1 1000}}", name)
		}
		if i == 1 && v < bounds[0] {
			return segment{}, c.fail(at, "the highest number must not be below the lowest, %d", bounds[0])
		}
		bounds[i] = v
	}
	return segment{
		kind: segmentRandom, low: bounds[0], span: uint64(bounds[1]) - uint64(bounds[0]) + 1, slot: c.slot(),
	}, nil
}

// slot returns the next number for something random.
func (c *compiler) slot() uint64 {
	c.slots++
	return c.slots
}

func (c *compiler) pick() (segment, error) {
	s := segment{kind: segmentPick, slot: c.slot()}
	for {
		c.space()
		if c.pos == len(c.text) || c.text[c.pos] != '"' {
			break
		}
		option, err := c.quoted()
		if err != nil {
			return s, err
		}
		s.options = append(s.options, option)
	}
	if len(s.options) == 0 {
		return s, c.fail(c.pos, `pick must be followed by a text in quotes, as in {{pick "a" "b"}}`)
	}
	return s, nil
}

func (c *compiler) quoted() ([]byte, error) {
	start := c.pos
	text := []byte{}
	for c.pos++; c.pos < len(c.text); c.pos++ {
		switch b := c.text[c.pos]; {
		case b == '"':
			c.pos++
			return text, nil
		case b != '\\':
			text = append(text, b)
		case c.pos+1 < len(c.text) && (c.text[c.pos+1] == '"' || c.text[c.pos+1] == '\\'):
			c.pos++
			text = append(text, c.text[c.pos])
		default:
			return nil, c.fail(c.pos, `a backslash must be followed by " or \`)
		}
	}
	return nil, c.fail(start, "the text is not closed by a quote")
}

// mapped returns segments in which f was applied to every text.
func mapped(segments []segment, f func(string) string) []segment {
	out := make([]segment, len(segments))
	for i, s := range segments {
		if s.kind == segmentLiteral {
			s.text = []byte(f(string(s.text)))
		}
		options := s.options
		s.options = nil
		for _, o := range options {
			s.options = append(s.options, []byte(f(string(o))))
		}
		out[i] = s
	}
	return out
}

// append appends the segment for the request with the given number; draws is
// where its random numbers come from.
func (s *segment) append(dst []byte, index, draws uint64) []byte {
	switch s.kind {
	case segmentCounter:
		return strconv.AppendUint(dst, index+1, 10)
	case segmentRandom:
		return strconv.AppendInt(dst, s.number(draws), 10)
	case segmentPick:
		return append(dst, s.choice(draws)...)
	}
	return append(dst, s.text...)
}

func (s *segment) size(index, draws uint64) int {
	var digits [20]byte
	switch s.kind {
	case segmentPick:
		return len(s.choice(draws))
	case segmentCounter, segmentRandom:
		return len(s.append(digits[:0], index, draws))
	}
	return len(s.text)
}

func (s *segment) number(draws uint64) int64 {
	x := mix(draws + s.slot)
	if s.span > 0 {
		x, _ = bits.Mul64(x, s.span)
	}
	return int64(uint64(s.low) + x)
}

func (s *segment) choice(draws uint64) []byte {
	i, _ := bits.Mul64(mix(draws+s.slot), uint64(len(s.options)))
	return s.options[i]
}

// mix hashes x: it is the function of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood: Fast
// splittable pseudorandom number generators, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// A Request is what is sent, as segments.
//
// Immutable after Parse.
type Request struct {
	whole []byte // the request when all are the same
	head  []segment
	body  []segment
	seed  uint64
}

// Render returns the bytes of the request with the given number in the schedule of all
// shards, from 0. They are in scratch, which is replaced if it is too short, or belong to
// the Request. They are valid until the next Render with that scratch, and must not be
// modified.
func (r *Request) Render(scratch *[]byte, index uint64) []byte {
	if r.whole != nil {
		return r.whole
	}
	*scratch = r.append((*scratch)[:0], index)
	return *scratch
}

func (r *Request) append(dst []byte, index uint64) []byte {
	draws := mix(r.seed + mix(index))
	for i := range r.head {
		switch s := &r.head[i]; s.kind {
		case segmentLength:
			dst = strconv.AppendInt(dst, int64(r.bodySize(index, draws)), 10)
		case segmentPrefix: // not compressed, and its length
			dst = binary.BigEndian.AppendUint32(append(dst, 0), uint32(r.bodySize(index, draws)))
		default:
			dst = s.append(dst, index, draws)
		}
	}
	for i := range r.body {
		dst = r.body[i].append(dst, index, draws)
	}
	return dst
}

func (r *Request) bodySize(index, draws uint64) int {
	n := 0
	for i := range r.body {
		n += r.body[i].size(index, draws)
	}
	return n
}

// changes reports whether segments differ from request to request.
func changes(segments []segment) bool {
	return slices.ContainsFunc(segments, func(s segment) bool {
		return s.kind != segmentLiteral && s.kind != segmentLength && s.kind != segmentPrefix
	})
}

// A head is assembled from literals and segments.
type head struct{ segments []segment }

func (h *head) text(s string) {
	n := len(h.segments)
	if n == 0 || h.segments[n-1].kind != segmentLiteral {
		h.segments = append(h.segments, segment{})
		n++
	}
	last := &h.segments[n-1]
	last.text = append(last.text, s...)
}

func (h *head) add(segments []segment) {
	for _, s := range segments {
		if s.kind == segmentLiteral {
			h.text(string(s.text))
		} else {
			h.segments = append(h.segments, s)
		}
	}
}
