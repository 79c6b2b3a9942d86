package refusal

import "bytes"

// A Form is a media type of a refusal.
type Form uint8

// The forms. If a client accepts several equally, the first is used.
const (
	JSON Form = iota
	HTML
	Text
	forms
)

// String returns the extension of files of that form.
func (f Form) String() string { return [...]string{"json", "html", "txt"}[f] }

func (f Form) contentType() string {
	return [...]string{"application/json", "text/html; charset=utf-8", "text/plain; charset=utf-8"}[f]
}

// Accept is the quality of each form for a client, in thousandths (RFC 9110 section
// 12.5.1). The zero Accept accepts anything.
type Accept [forms]uint16

// acceptBytesMax bounds an Accept field that is parsed; browsers do not send longer ones.
const acceptBytesMax = 1024

// types are the media types of the forms.
var types = [forms][2]string{{"application", "json"}, {"text", "html"}, {"text", "plain"}}

// ParseAccept parses the value of an Accept field. A value that does not name text/…
// accepts the default form or an unknown one: it is not parsed, and the result is zero.
// Malformed elements are ignored.
func ParseAccept(value []byte) (a Accept) {
	if string(value) == "*/*" || string(value) == "application/json" { // nearly all programs
		return a
	}
	if len(value) > acceptBytesMax || !bytes.Contains(value, []byte("ext/")) && !bytes.Contains(value, []byte("EXT/")) {
		return a
	}
	var exact [forms]uint8 // how specifically a form was named so far
	for len(value) > 0 {
		element, rest, _ := bytes.Cut(value, []byte(","))
		value = rest
		media, parameters, _ := bytes.Cut(element, []byte(";"))
		kind, sub, _ := bytes.Cut(bytes.Trim(media, " \t"), []byte("/"))
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

// pick returns the offered form with the highest quality. If the client accepts none of
// them it gets JSON, as RFC 9110 section 12.4.1 allows.
func (a Accept) pick(offered *[forms]bool) Form {
	best := JSON
	for f := HTML; f < forms; f++ {
		if offered[f] && a[f] > a[best] {
			best = f
		}
	}
	return best
}

// matches returns how specifically a media range names a type: 0 not at all, 3 in full.
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

// quality parses the weight among parameters, 1000 if there is none. A range with other
// parameters before it, such as level=1, counts as the type itself.
func quality(parameters []byte) (q uint16, ok bool) {
	for len(parameters) > 0 {
		one, rest, _ := bytes.Cut(parameters, []byte(";"))
		parameters = rest
		name, value, _ := bytes.Cut(bytes.Trim(one, " \t"), []byte("="))
		if string(name) == "q" || string(name) == "Q" {
			return thousandths(value)
		}
	}
	return 1000, true
}

// thousandths parses a qvalue (RFC 9110 section 12.4.2).
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
