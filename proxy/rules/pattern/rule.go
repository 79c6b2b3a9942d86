package pattern

import (
	"slices"
)

// A Rule describes the requests that a rule applies to.
type Rule struct {
	Methods    []string // none: all
	Path, Host *Pattern // nil: all
	Conditions []PartCondition
}

// A PartCondition requires that a request has a part, and that its value equals Word, or, with
// None, is none of those values.
type PartCondition struct {
	Slot int // identifies the part
	Word string
	None *ValueSet // overrides Word
}

// A ValueSet is the set of values that a list of descriptors has for a key.
//
// Immutable while rules are searched.
type ValueSet struct{ Values map[string]bool }

func (w *ValueSet) has(word string) bool { return w.Values[word] }

// Overlaps reports whether both rules could apply to one request.
func (r *Rule) Overlaps(other *Rule) bool {
	for i := range r.Conditions {
		for k := range other.Conditions {
			if !r.Conditions[i].meets(&other.Conditions[k]) {
				return false
			}
		}
	}
	return methodsMeet(r.Methods, other.Methods) && r.Path.Overlaps(other.Path) && r.Host.Overlaps(other.Host)
}

func methodsMeet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(m string) bool { return slices.Contains(b, m) })
}

// meets reports whether a request can fulfil both conditions.
func (c *PartCondition) meets(other *PartCondition) bool {
	switch {
	case c.Slot != other.Slot || c.None != nil && other.None != nil:
		return true
	case c.None != nil:
		return !c.None.has(other.Word)
	case other.None != nil:
		return !other.None.has(c.Word)
	}
	return c.Word == other.Word
}
