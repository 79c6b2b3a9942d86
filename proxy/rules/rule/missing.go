package rule

import (
	"strconv"

	"weir/internal/data/strict"
	"weir/proxy/rules/keys"
)

// A Missing says what a rule does with requests that lack a part of its key.
//
// Skip is for parts that only some requests have, such as a session cookie: requests
// without it are not limited by the rule. Skip does not apply to requests whose path can
// be read in several ways, or whose part has more readings than can be counted, since a client
// could write any request so. They share a counter.
type Missing uint8

const (
	Share  Missing = iota // one counter for all that lack the same parts
	Skip                  // the rule does not apply
	Refuse                // 400: waiting would not help the client
)

// String returns the word used in files.
func (m Missing) String() string { return [...]string{"share", "skip", "refuse"}[m] }

// MarshalText returns [Missing.String].
func (m Missing) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is the inverse of [Missing.MarshalText].
func (m *Missing) UnmarshalText(text []byte) (err error) {
	*m, err = strict.OneOf[Missing](text, "share", "skip", "refuse")
	return err
}

// lack returns the index of the first part of the key that the request lacks, or none, and
// whether the rule is skipped because of it.
func (c *compiled) lack(x *Scratch) (first int, skipped bool) {
	first = none
	for k, slot := range c.key {
		v := x.value(slot)
		if v.present {
			continue
		}
		if first == none {
			first = k
		}
		skipped = skipped || c.Missing == Skip && x.parts[slot].Source != keys.Path && !v.many
	}
	return first, skipped
}

// Refusing returns the first hit of a rule that refuses the request because it lacks a
// part of the key, or nil. Rules in shadow never refuse.
func Refusing(hits []Hit) *Hit {
	for i := range hits {
		if h := &hits[i]; h.Lacks != nil && h.Rule.Missing == Refuse && h.Rule.Mode == Enforce {
			return h
		}
	}
	return nil
}

// AppendMissing appends JSON for the client that names the part of the key that is missing.
func (h *Hit) AppendMissing(dst []byte) []byte {
	part := h.Lacks.String()
	message := "the request lacks " + part + ", which the rule needs"
	switch {
	case h.unclear:
		message = part + " can be read in several ways, and the rule needs one"
	case h.Lacks.Source == keys.Path:
		message = "the path can be read in several ways, and the rule needs one"
	}
	dst = append(dst, `{"error":`...)
	dst = strconv.AppendQuote(dst, message)
	dst = append(dst, `,"rule":`...)
	dst = strconv.AppendQuote(dst, h.Rule.ID)
	dst = append(dst, `,"missing":`...)
	dst = strconv.AppendQuote(dst, part)
	return append(dst, "}\n"...)
}
