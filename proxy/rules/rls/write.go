package rls

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"weir/internal/data/strict"
)

// A Struct is a google.protobuf.Struct. Its values are nil, bool, float64, string, []any of such
// values, or Struct.
type Struct = map[string]any

// AppendResponse appends a response as protojson writes it: fields without a value are
// left out.
func AppendResponse(dst []byte, r *Response) []byte {
	o := object{dst: append(dst, '{')}
	if r.OverallCode != Unknown {
		o.dst = appendWord(o.name("overallCode"), r.OverallCode.String())
	}
	if len(r.Statuses) > 0 {
		o.dst = append(o.name("statuses"), '[')
		for i := range r.Statuses {
			o.dst = appendStatus(comma(o.dst, i), &r.Statuses[i])
		}
		o.dst = append(o.dst, ']')
	}
	if len(r.Headers) > 0 {
		o.dst = append(o.name("responseHeadersToAdd"), '[')
		for i := range r.Headers {
			o.dst = appendHeader(comma(o.dst, i), &r.Headers[i])
		}
		o.dst = append(o.dst, ']')
	}
	if len(r.RawBody) > 0 {
		o.dst = append(base64.StdEncoding.AppendEncode(append(o.name("rawBody"), '"'), r.RawBody), '"')
	}
	if r.Metadata != nil {
		o.dst = appendStruct(o.name("dynamicMetadata"), r.Metadata)
	}
	return append(o.dst, '}')
}

func appendStatus(dst []byte, s *Status) []byte {
	o := object{dst: append(dst, '{')}
	if s.Code != Unknown {
		o.dst = appendWord(o.name("code"), s.Code.String())
	}
	if s.Limit.Given {
		o.dst = appendLimit(o.name("currentLimit"), &s.Limit)
	}
	if s.Remaining != 0 {
		o.dst = strconv.AppendUint(o.name("limitRemaining"), uint64(s.Remaining), 10)
	}
	if s.UntilReset != 0 {
		o.dst = append(strconv.AppendInt(append(o.name("durationUntilReset"), '"'), int64(s.UntilReset/time.Second), 10),
			`s"`...)
	}
	return append(o.dst, '}')
}

func appendLimit(dst []byte, l *Limit) []byte {
	o := object{dst: append(dst, '{')}
	if l.RequestsPerUnit != 0 {
		o.dst = strconv.AppendUint(o.name("requestsPerUnit"), uint64(l.RequestsPerUnit), 10)
	}
	if l.Unit != NoUnit {
		o.dst = appendWord(o.name("unit"), l.Unit.String())
	}
	if l.Name != "" {
		o.dst = appendText(o.name("name"), l.Name)
	}
	return append(o.dst, '}')
}

func appendHeader(dst []byte, h *Header) []byte {
	o := object{dst: append(dst, '{')}
	if len(h.Key) > 0 {
		o.dst = appendText(o.name("key"), h.Key)
	}
	if len(h.Value) > 0 {
		o.dst = appendText(o.name("value"), h.Value)
	}
	return append(o.dst, '}')
}

func appendStruct(dst []byte, s Struct) []byte {
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(s)) {
		dst = append(appendText(comma(dst, i), name), ':')
		dst = appendValue(dst, s[name])
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(dst, v)
	case float64:
		return strict.AppendFloat(dst, v)
	case string:
		return appendText(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, one := range v {
			dst = appendValue(comma(dst, i), one)
		}
		return append(dst, ']')
	case Struct:
		return appendStruct(dst, v)
	}
	return append(dst, "null"...)
}

// An object is a JSON object that is being written.
type object struct {
	dst   []byte
	begun bool
}

// name begins a member and returns the slice to which its value must be appended.
func (o *object) name(name string) []byte {
	if o.begun {
		o.dst = append(o.dst, ',')
	}
	o.begun = true
	return append(appendWord(o.dst, name), ':')
}

// comma appends a comma unless element i is the first.
func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

// appendWord appends a string that needs no escapes.
func appendWord(dst []byte, word string) []byte {
	return append(append(append(dst, '"'), word...), '"')
}

// appendText appends a string (RFC 8259 section 7). Invalid UTF-8 becomes U+FFFD.
func appendText[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	begin, plain := len(dst), true
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			plain = plain && c < utf8.RuneSelf
			dst = append(dst, c)
		}
	}
	if !plain && !utf8.Valid(dst[begin:]) {
		dst = append(dst[:begin], bytes.ToValidUTF8(dst[begin:], []byte("\uFFFD"))...)
	}
	return append(dst, '"')
}
