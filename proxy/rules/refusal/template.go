package refusal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/net/http1"
)

// Values are the values in a refusal. The texts are borrowed.
type Values struct {
	Status     int    // of the answer
	Error      string // what is wrong, without characters that JSON escapes
	Rule       string // that refuses; empty: none
	Limit      int64  // of that rule
	Remaining  int64
	RetryAfter int64  // whole seconds; negative: retrying does not help
	Decision   []byte // decision id; empty: none
	RequestID  []byte // empty: none
}

// A placeholder stands for a value in a template.
type placeholder uint8

const (
	literal placeholder = iota
	phStatus
	phTitle
	phError
	phAdvice
	phRule
	phLimit
	phRemaining
	phRetryAfter
	phDecision
	phRequestID
	placeholders
)

// placeholderNames are the words between the braces.
var placeholderNames = [placeholders]string{phStatus: "status", phTitle: "title", phError: "error",
	phAdvice: "advice", phRule: "rule", phLimit: "limit",
	phRemaining: "remaining", phRetryAfter: "retryAfter", phDecision: "decision", phRequestID: "requestId"}

// Bounds of a template, and of its parts.
const (
	templateBytesMax = 64 << 10
	placesMax        = 1000
)

// A Template is the body of a refusal with placeholders. Their values are escaped in HTML
// and JSON.
//
// Immutable after ParseTemplate.
type Template struct {
	form  Form
	parts []part
}

// A part is literal text, or a placeholder.
type part struct {
	text  []byte
	place placeholder
}

// ParseTemplate parses a template of a form: UTF-8 text with placeholders such as
// {{retryAfter}}. The error has the form "line 3: …". A JSON template must be valid JSON
// with any values.
func ParseTemplate(f Form, text []byte) (*Template, error) {
	if len(text) > templateBytesMax {
		return nil, fmt.Errorf("must be at most %d bytes, is %d", templateBytesMax, len(text))
	}
	line := 0
	for one := range bytes.Lines(text) {
		if line++; !utf8.Valid(one) {
			return nil, fmt.Errorf("line %d: must be UTF-8", line)
		}
	}
	t := &Template{form: f}
	line = 1
	for rest := text; len(rest) > 0; {
		plain, after, opened := bytes.Cut(rest, []byte("{{"))
		if len(plain) > 0 {
			t.parts = append(t.parts, part{text: bytes.Clone(plain)})
		}
		if !opened {
			break
		}
		line += bytes.Count(plain, []byte("\n"))
		word, behind, closed := bytes.Cut(after, []byte("}}"))
		if !closed {
			return nil, fmt.Errorf("line %d: {{ without }}", line)
		}
		place := slices.Index(placeholderNames[:], string(bytes.TrimSpace(word)))
		if place <= int(literal) {
			return nil, fmt.Errorf("line %d: {{%.40q}} is unknown; allowed: {{%s}}", line, word,
				strings.Join(placeholderNames[literal+1:], "}}, {{"))
		}
		if t.parts = append(t.parts, part{place: placeholder(place)}); len(t.parts) > placesMax {
			return nil, fmt.Errorf("line %d: more than %d parts", line, placesMax)
		}
		line += bytes.Count(word, []byte("\n"))
		rest = behind
	}
	return t, t.check()
}

// check reports a JSON template that does not become valid JSON.
func (t *Template) check() error {
	if t.form != JSON {
		return nil
	}
	for _, v := range []Values{
		{Status: 429, Error: `a"b\`, Rule: `a"b\`, Decision: []byte("a"), RequestID: []byte(`a"\`), RetryAfter: 1},
		{Status: 503, RetryAfter: -1},
	} {
		body := t.Append(nil, &v)
		var whole json.RawMessage
		if err := json.Unmarshal(body, &whole); err != nil {
			offset := int64(len(body))
			if syntax, ok := err.(*json.SyntaxError); ok {
				offset = min(offset, syntax.Offset)
			}
			return fmt.Errorf("line %d: does not become valid JSON: %w", 1+bytes.Count(body[:offset], []byte{'\n'}), err)
		}
	}
	return nil
}

// Append appends the template with the given values.
func (t *Template) Append(dst []byte, v *Values) []byte {
	for i := range t.parts {
		if p := &t.parts[i]; p.place == literal {
			dst = append(dst, p.text...)
		} else {
			dst = t.appendValue(dst, p.place, v)
		}
	}
	return dst
}

func (t *Template) appendValue(dst []byte, p placeholder, v *Values) []byte {
	switch p {
	case phStatus:
		return strconv.AppendInt(dst, int64(v.Status), 10)
	case phLimit:
		return strconv.AppendInt(dst, v.Limit, 10)
	case phRemaining:
		return strconv.AppendInt(dst, v.Remaining, 10)
	case phRetryAfter:
		if v.RetryAfter < 0 {
			return append(dst, "null"...)
		}
		return strconv.AppendInt(dst, v.RetryAfter, 10)
	case phTitle:
		return append(dst, http1.ReasonPhrase(v.Status)...)
	case phAdvice:
		return appendAdvice(dst, v)
	case phError:
		return escape(t.form, dst, v.Error)
	case phRule:
		return escape(t.form, dst, v.Rule)
	case phDecision:
		return escape(t.form, dst, v.Decision)
	}
	return escape(t.form, dst, v.RequestID)
}

// appendAdvice appends a sentence that says what the reader can do.
func appendAdvice(dst []byte, v *Values) []byte {
	switch {
	case v.RetryAfter < 0:
		return append(dst, "It needs more than the limit can ever allow, so trying again does not help."...)
	case v.RetryAfter <= 1:
		return append(dst, "Please try again in a second."...)
	}
	dst = append(dst, "Please try again in "...)
	dst = strconv.AppendInt(dst, v.RetryAfter, 10)
	return append(dst, " seconds."...)
}

// escape appends text so that it is literal: in HTML's text or attributes, within a JSON
// string, or as one line of text.
func escape[T ~string | ~[]byte](f Form, dst []byte, text T) []byte {
	const hex = "0123456789abcdef"
	for i := range len(text) {
		switch c := text[i]; {
		case f == HTML && (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'' || c == '`'):
			dst = append(dst, "&#"...)
			dst = strconv.AppendInt(dst, int64(c), 10)
			dst = append(dst, ';')
		case f == JSON && (c == '"' || c == '\\'):
			dst = append(dst, '\\', c)
		case f == JSON && (c < ' ' || c == 0x7f):
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < ' ' || c == 0x7f:
			dst = append(dst, ' ')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
