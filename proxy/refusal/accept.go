package refusal

import "bytes"

// A Form is how a refusal is written.
type Form uint8

// The forms; of those that a client wants equally the first is taken.
const (
	JSON Form = iota
	HTML
	Text
	forms
)

// String is the end of the names of files of that form.
func (f Form) String() string { return [...]string{"json", "html", "txt"}[f] }

// contentType is the Content-Type of a form.
func (f Form) contentType() string {
	return [...]string{"application/json", "text/html; charset=utf-8", "text/plain; charset=utf-8"}[f]
}

// Accept is how much a client wants each form: its quality, in thousandths (RFC 9110
// section 12.5.1). The zero Accept wants whatever there is.
type Accept [forms]uint16

// acceptBytesMax bounds an Accept field that is read; a longer one is none of a browser's.
const acceptBytesMax = 1024

// types are the media types of the forms.
var types = [forms][2]string{{"application", "json"}, {"text", "html"}, {"text", "plain"}}

// ParseAccept reads the value of an Accept field. One that does not name text/… wants
// the default or something that is not there: it is not read, and the result is zero.
// Elements that are malformed are passed over.
func ParseAccept(value []byte) (a Accept) {
	if string(value) == "*/*" || string(value) == "application/json" { // nearly all programs
		return a
	}
	if len(value) > acceptBytesMax || !bytes.Contains(value, []byte("ext/")) && !bytes.Contains(value, []byte("EXT/")) {
		return a
	}
	var exact [forms]uint8 // how exactly a form was named so far
	for len(value) > 0 {
		element, rest := cut(value, ',')
		value = rest
		media, parameters := cut(element, ';')
		kind, sub := cut(trim(media), '/')
		q, ok := quality(parameters)
		if !ok {
			continue
		}
		for f := range a {
			if e := matches(kind, sub, types[f]); e > exact[f] || e > 0 && e == exact[f] && q > a[f] {
				a[f], exact[f] = q, e
			}
		}
	}
	return a
}

// pick returns the form that the client wants most of those offered. When it wants none
// of them it gets JSON, as RFC 9110 section 12.4.1 allows.
func (a Accept) pick(offered *[forms]bool) Form {
	best := JSON
	for f := HTML; f < forms; f++ {
		if offered[f] && a[f] > a[best] {
			best = f
		}
	}
	return best
}

// matches returns how exactly a media range names a type: 0 not at all, 3 in full.
func matches(kind, sub []byte, of [2]string) uint8 {
	switch {
	case string(kind) == "*" && string(sub) == "*":
		return 1
	case !bytes.EqualFold(kind, []byte(of[0])):
		return 0
	case string(sub) == "*":
		return 2
	case bytes.EqualFold(sub, []byte(of[1])):
		return 3
	}
	return 0
}

// quality reads the weight among parameters, 1000 when there is none. A range with
// other parameters before it, such as level=1, is taken for the type itself.
func quality(parameters []byte) (q uint16, ok bool) {
	for len(parameters) > 0 {
		one, rest := cut(parameters, ';')
		parameters = rest
		name, value := cut(trim(one), '=')
		if string(name) == "q" || string(name) == "Q" {
			return thousandths(value)
		}
	}
	return 1000, true
}

// thousandths reads a qvalue (RFC 9110 section 12.4.2).
func thousandths(text []byte) (q uint16, ok bool) {
	if len(text) == 0 || len(text) > 5 || text[0] != '0' && text[0] != '1' || len(text) > 1 && text[1] != '.' {
		return 0, false
	}
	q = uint16(text[0]-'0') * 1000
	for i, scale := 2, uint16(100); i < len(text); i, scale = i+1, scale/10 {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		q += uint16(text[i]-'0') * scale
	}
	return q, q <= 1000
}

// cut is bytes.Cut by one byte.
func cut(b []byte, sep byte) (before, after []byte) {
	if i := bytes.IndexByte(b, sep); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// trim takes spaces and tabs off both ends.
func trim(b []byte) []byte { return bytes.Trim(b, " \t") }
