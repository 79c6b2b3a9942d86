package keys

import (
	"bytes"

	"weir/internal/net/http1"
)

// A Request is the head of a request, of which rules see the parts.
type Request http1.Head

// Read sets v to what targets may read as a field, a cookie or a parameter of the request.
func (r *Request) Read(p *Part, v *Interpretations) {
	v.n, v.many = 0, false
	exact := false // all targets find the name
	switch p.Source {
	case Header:
		exact = r.readField(p, v)
	case Cookie:
		exact = r.readCookie(p.Name, v)
	case Query:
		exact = r.readQuery(p.Name, v)
	}
	if !exact {
		v.add(Interpretation{})
	}
}

// Has reports whether the request has a field of that name.
func (r *Request) Has(name string) bool {
	_, ok := (*http1.Head)(r).Field(name)
	return ok
}

// readField reads the field lines of a name. Programs that convert names to variables take
// X_Partner for X-Partner.
func (r *Request) readField(p *Part, v *Interpretations) (exact bool) {
	for i := range r.Fields {
		f := &r.Fields[i]
		switch {
		case len(f.Name) != len(p.Name):
			continue
		case http1.EqualFold(f.Name, p.Name):
			exact = true
		case !looksLike(f.Name, p.Name):
			continue
		}
		if v.addField(p, f.Value); v.many {
			break
		}
	}
	return exact
}

// IsField reports whether some targets take a field of that name for the one of the part.
func (p *Part) IsField(name []byte) bool {
	return p.Source == Header && len(name) == len(p.Name) && looksLike(name, p.Name)
}

// looksLike compares names of one length from the end, because many begin with X-.
func looksLike(name []byte, other string) bool {
	for i := len(name) - 1; i >= 0; i-- {
		if Fold(name[i]) != Fold(other[i]) {
			return false
		}
	}
	return true
}

// readCookie reads the cookies of a name (RFC 6265 section 4.2.1), whichever field they are in.
func (r *Request) readCookie(name string, v *Interpretations) (exact bool) {
	for i := range r.Fields {
		if r.Fields[i].ID != http1.FieldCookie {
			continue
		}
		var pair []byte
		for rest := r.Fields[i].Value; len(rest) > 0 && !v.many; {
			pair, rest, _ = bytes.Cut(rest, []byte(";"))
			key, text, _ := bytes.Cut(trim(pair), []byte("="))
			key = trim(key)
			same := string(key) == name
			if same || foldsTo(key, name) {
				exact = exact || same
				v.addCookie(trim(text))
			}
		}
	}
	return exact
}

// readQuery reads the parameters of a name. Some targets take a semicolon for a separator too.
func (r *Request) readQuery(name string, v *Interpretations) (exact bool) {
	var pair []byte
	for rest := r.Query; len(rest) > 0 && !v.many; {
		pair, rest, _ = bytes.Cut(rest, []byte("&"))
		if v.addQuery(pair, name) {
			exact = true
		}
		if bytes.IndexByte(pair, ';') < 0 {
			continue
		}
		for part := []byte(nil); len(pair) > 0 && !v.many; {
			part, pair, _ = bytes.Cut(pair, []byte(";"))
			v.addQuery(part, name)
		}
	}
	return exact
}

// trim removes the spaces and tabs around text.
func trim(text []byte) []byte { return bytes.Trim(text, " \t") }
