// Package pattern matches the paths and hosts of requests, and finds rules that could apply to the
// same request.
//
// A [Pattern] matches a path or host, with wildcards. Paths are compared in a normal
// form, so that another spelling of a path does not change which patterns match it. [AppendInterpretations]
// returns the forms in which targets may read a path.
package pattern

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// A Pattern is the path or host of a match, as segments. The nil pattern matches
// everything.
//
// Immutable after New.
type Pattern struct {
	separator byte
	segments  []Segment
	// Nearly all patterns are matched without comparing segments: literal is the whole text
	// if exact is set (no wildcards), and the text before /** if prefix is set.
	literal string
	exact   bool
	prefix  bool
	tail    int // number of segments after the last **
}

// A Segment is one segment of a pattern.
type Segment struct {
	Wild Wild
	Text string // if Wild is WildNone
}

// A Wild is a wildcard, or none.
type Wild uint8

const (
	WildNone Wild = iota
	WildOne       // *: one segment
	WildAny       // **: any number of segments, including none
)

// segmentsMax bounds the segments of a pattern.
const segmentsMax = 32

// Path parses the path of a match.
func Path(text string) (*Pattern, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("must begin with /, is %q", text)
	}
	if strings.ContainsAny(text, "?#") {
		return nil, fmt.Errorf("must be a path without ? and #, is %q", text)
	}
	trimmed := strings.TrimRight(text, "/")
	if text != "/" && text != trimmed {
		return nil, fmt.Errorf("must not end in /, is %q: write %s for that path alone, %s/** to "+
			"include all paths below it", text, trimmed, trimmed)
	}
	p, err := parse(strings.TrimPrefix(text, "/"), '/')
	if err != nil {
		return nil, fmt.Errorf("%w, is %q", err, text)
	}
	normal := string(AppendNormalPath(nil, []byte(text)))
	if written := strings.ReplaceAll(text, "%2A", "*"); normal != written {
		return nil, fmt.Errorf("must be in normal form, is %q: write %s", text, normal)
	}
	return p, nil
}

// Host parses the host of a match.
func Host(text string) (*Pattern, error) {
	lower := strings.ToLower(text)
	p, err := parse(lower, '.')
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w, is %q", err, text)
	case strings.ContainsAny(text, "/?#@%, \t") || strings.HasSuffix(text, ".") ||
		string(AppendHost(nil, []byte(text))) != lower:
		return nil, fmt.Errorf("must be a host without port, such as api.example.com or *.example.com, is %q", text)
	}
	return p, nil
}

// parse parses segments with separators between them.
func parse(text string, separator byte) (*Pattern, error) {
	p := &Pattern{separator: separator}
	if text == "" {
		p.exact = true
		return p, nil
	}
	for word := range strings.SplitSeq(text, string(separator)) {
		s := Segment{Text: word}
		switch {
		case word == "*":
			s = Segment{Wild: WildOne}
		case word == "**":
			s = Segment{Wild: WildAny}
		case strings.Contains(word, "*"):
			return nil, errors.New("must have * (one segment) and ** (any number) as whole segments; write a literal * as %2A")
		case separator == '/':
			s.Text = strings.ReplaceAll(word, "%2A", "*")
		}
		p.segments = append(p.segments, s)
	}
	if len(p.segments) > segmentsMax {
		return nil, fmt.Errorf("must have at most %d segments, has %d", segmentsMax, len(p.segments))
	}
	p.summarise()
	return p, nil
}

func (p *Pattern) summarise() {
	fixed := 0
	for fixed < len(p.segments) && p.segments[fixed].Wild == WildNone {
		fixed++
	}
	for p.tail < len(p.segments) && p.segments[len(p.segments)-1-p.tail].Wild != WildAny {
		p.tail++
	}
	words := make([]string, fixed)
	for i := range words {
		words[i] = p.segments[i].Text
	}
	p.literal = strings.Join(words, string(p.separator))
	p.exact = fixed == len(p.segments)
	p.prefix = p.separator == '/' && fixed+1 == len(p.segments) && p.segments[fixed].Wild == WildAny
}

// Matches reports whether the pattern matches text: a host, or a path in normal form
// without its leading slash.
func (p *Pattern) Matches(text []byte) bool {
	switch {
	case p == nil:
		return true
	case p.exact:
		return string(text) == p.literal
	case p.prefix:
		n := len(p.literal)
		return n == 0 || len(text) >= n && string(text[:n]) == p.literal && (len(text) == n || text[n] == '/')
	}
	return p.walk(text)
}

// Segments returns the segments of the pattern, or nil. The caller must not modify the
// slice.
func (p *Pattern) Segments() []Segment {
	if p == nil {
		return nil
	}
	return p.segments
}

// Literal returns the text that the pattern matches, if it matches only one.
func (p *Pattern) Literal() (text string, ok bool) {
	if p == nil {
		return "", false
	}
	return p.literal, p.exact
}

// Prefix returns the segments before the first wildcard, joined. It is empty if there are
// none, or no wildcards.
func (p *Pattern) Prefix() string {
	if p == nil || p.exact {
		return ""
	}
	return p.literal
}

// MatchesAll reports whether the pattern, which must not be nil, is /**.
func (p *Pattern) MatchesAll() bool { return p.prefix && p.literal == "" }

// walk matches segment by segment. For ** it tries increasing numbers of segments. It goes
// back only to the latest ** (as with * in shells): an earlier ** need not match more,
// because the later one can match those segments instead. The segments after the last ** of
// the pattern are compared with the end of text, so that a long path is not tried at each of
// its segments for each of many rules.
func (p *Pattern) walk(text []byte) bool {
	i, again := 0, -1 // again: the segment after the latest **
	var left []byte   // the text after the segments that ** matches
	for {
		if i < len(p.segments) && p.segments[i].Wild == WildAny {
			if i++; i >= len(p.segments)-p.tail {
				return p.ends(text)
			}
			again, left = i, text
			continue
		}
		if len(text) == 0 {
			return i == len(p.segments)
		}
		first, rest := cut(text, p.separator)
		switch {
		case i < len(p.segments) && p.segments[i].takes(first):
			i++
			text = rest
		case again >= 0:
			_, left = cut(left, p.separator)
			i, text = again, left
		default:
			return false
		}
	}
}

// ends reports whether the last segments of text match those after the last **.
func (p *Pattern) ends(text []byte) bool {
	over := len(text) == 0
	text = bytes.TrimSuffix(text, []byte{p.separator}) // as in walk, no segment follows it
	for i := len(p.segments) - 1; i >= len(p.segments)-p.tail; i-- {
		at := bytes.LastIndexByte(text, p.separator)
		if over || !p.segments[i].takes(text[at+1:]) {
			return false
		}
		over = at < 0
		text = text[:max(at, 0)]
	}
	return true
}

// takes reports whether a segment other than ** matches text.
func (s *Segment) takes(text []byte) bool { return s.Wild == WildOne || s.Text == string(text) }

// cut splits text at the first separator.
func cut(text []byte, separator byte) (first, rest []byte) {
	if i := bytes.IndexByte(text, separator); i >= 0 {
		return text[:i], text[i+1:]
	}
	return text, nil
}

// Overlaps reports whether there is a text that both patterns match.
func (p *Pattern) Overlaps(q *Pattern) bool {
	if p == nil || q == nil {
		return true
	}
	if p.exact && q.exact {
		return p.literal == q.literal
	}
	for i := range min(len(p.segments), len(q.segments)) { // most patterns differ before any **
		if p.segments[i].Wild == WildAny || q.segments[i].Wild == WildAny {
			break
		}
		if !p.segments[i].meets(&q.segments[i]) {
			return false
		}
	}
	// possible[i][j]: some text matches both p.segments[i:] and q.segments[j:]
	var possible [segmentsMax + 1][segmentsMax + 1]bool
	for i := len(p.segments); i >= 0; i-- {
		for j := len(q.segments); j >= 0; j-- {
			anyP := i < len(p.segments) && p.segments[i].Wild == WildAny
			anyQ := j < len(q.segments) && q.segments[j].Wild == WildAny
			switch {
			case i == len(p.segments) && j == len(q.segments):
				possible[i][j] = true
			case anyP: // ** matches no segment, or one more
				possible[i][j] = possible[i+1][j] || j < len(q.segments) && possible[i][j+1]
			case anyQ:
				possible[i][j] = possible[i][j+1] || i < len(p.segments) && possible[i+1][j]
			case i < len(p.segments) && j < len(q.segments):
				possible[i][j] = p.segments[i].meets(&q.segments[j]) && possible[i+1][j+1]
			}
		}
	}
	return possible[0][0]
}

func (s *Segment) meets(other *Segment) bool {
	return s.Wild == WildOne || other.Wild == WildOne || s.Text == other.Text
}
