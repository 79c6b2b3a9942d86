package keys

import "bytes"

// InterpretationsMax bounds the interpretations of a part that are distinguished.
const InterpretationsMax = 4

// An Interpretation is what a target may take for the value of a part. If it is not present, a target
// may find none.
type Interpretation struct {
	Text    []byte
	Present bool
}

// Interpretations are the different values that targets may read in one part of a request. A request
// has several if it has the name more than once, or names that only some targets take for the
// part's. Each value is in its normal form, so that spellings of one value are one interpretation.
// There is at least one.
//
// Owned by its loop.
type Interpretations struct {
	all  [InterpretationsMax]Interpretation
	n    int
	many bool
	// Memory is what values are appended to that are not as the request has them.
	Memory []byte
}

// All returns the interpretations, in the order of the request.
func (v *Interpretations) All() []Interpretation { return v.all[:v.n] }

// TooMany reports whether there are more interpretations than [InterpretationsMax]. All has the first ones then.
func (v *Interpretations) TooMany() bool { return v.many }

func (v *Interpretations) add(r Interpretation) {
	if v.n == 0 {
		v.all[0], v.n = r, 1
		return
	}
	for i := range v.all[:v.n] {
		if one := &v.all[i]; one.Present == r.Present && bytes.Equal(one.Text, r.Text) {
			return
		}
	}
	if v.n == InterpretationsMax {
		v.many = true
		return
	}
	v.all[v.n] = r
	v.n++
}

// addCookie adds the value of a cookie.
func (v *Interpretations) addCookie(text []byte) {
	v.Memory, text = appendCookie(v.Memory, text)
	v.add(Interpretation{text, true})
}

// addQuery adds a parameter if it has the name, and reports whether it has exactly that name.
func (v *Interpretations) addQuery(pair []byte, name string) (exact bool) {
	key, text, _ := bytes.Cut(pair, []byte("="))
	exact = decodesTo(key, name)
	if exact || foldsTo(key, name) {
		v.Memory, text = decodeForm(v.Memory, text)
		v.add(Interpretation{text, true})
	}
	return exact
}

// addField adds the value of a field of a part.
func (v *Interpretations) addField(p *Part, text []byte) {
	if !p.credentials() {
		v.add(Interpretation{text, true})
		return
	}
	var second []byte
	v.Memory, text, second = appendCredentials(v.Memory, text)
	v.add(Interpretation{text, true})
	if second != nil {
		v.add(Interpretation{second, true})
	}
}
