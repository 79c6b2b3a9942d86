package rule

import (
	"strconv"

	"weir/internal/data/strict"
	"weir/proxy/rules/keys"
)

// A MissingPolicy says what a rule does with requests that lack a part of its key.
//
// SkipRule is for parts that only some requests have, such as a session cookie: requests
// without it are not limited by the rule. SkipRule does not apply to requests whose path can
// be read in several ways, or whose part has more interpretations than can be counted, since a client
// could write any request so. They share a counter.
type MissingPolicy uint8

const (
	ShareCounter  MissingPolicy = iota // one counter for all that lack the same parts
	SkipRule                           // the rule does not apply
	RefuseRequest                      // 400: waiting would not help the client
)

// String returns the word used in files.
func (m MissingPolicy) String() string { return [...]string{"share", "skip", "refuse"}[m] }

// MarshalText returns [MissingPolicy.String].
func (m MissingPolicy) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is the inverse of [MissingPolicy.MarshalText].
func (m *MissingPolicy) UnmarshalText(text []byte) (err error) {
	*m, err = strict.OneOf[MissingPolicy](text, "share", "skip", "refuse")
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
		skipped = skipped || c.Missing == SkipRule && x.parts[slot].Source != keys.Path && !v.many
	}
	return first, skipped
}

// FirstRefusing returns the first match of a rule that refuses the request because it lacks a
// part of the key, or nil. Rules in shadow never refuse.
func FirstRefusing(matched []MatchedRule) *MatchedRule {
	for i := range matched {
		if h := &matched[i]; h.MissingPart != nil && h.Rule.Missing == RefuseRequest && h.Rule.Mode == Enforce {
			return h
		}
	}
	return nil
}

// AppendMissing appends JSON for the client that names the part of the key that is missing.
func (m *MatchedRule) AppendMissing(dst []byte) []byte {
	dst = append(dst, `{"error":`...)
	dst = strconv.AppendQuote(dst, m.lacking("the rule"))
	dst = append(dst, `,"rule":`...)
	dst = strconv.AppendQuote(dst, m.Rule.ID)
	dst = append(dst, `,"missing":`...)
	dst = strconv.AppendQuote(dst, m.MissingPart.String())
	return append(dst, "}\n"...)
}

// MissingMessage returns what AppendMissing says in one sentence, for answers that are not JSON.
func (m *MatchedRule) MissingMessage() string { return m.lacking("rule " + m.Rule.ID) }

// lacking says what the rule, which is called by the given name, needs.
func (m *MatchedRule) lacking(name string) string {
	part := m.MissingPart.String()
	switch {
	case m.unclear:
		return part + " can be read in several ways, and " + name + " needs one"
	case m.MissingPart.Source == keys.Path:
		return "the path can be read in several ways, and " + name + " needs one"
	}
	return "the request lacks " + part + ", which " + name + " needs"
}
