package strict

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Fault is one thing wrong with a document or a setting.
type Fault struct {
	Line    int    // of the file, from 1; 0 where lines say nothing
	Path    string // such as rules[2].match.path; empty for the whole
	Message string // what is allowed and what was found
}

// Error returns "line 7: path: message" without what is not known.
func (f Fault) Error() string {
	text := f.Message
	if f.Path != "" {
		text = f.Path + ": " + text
	}
	if f.Line > 0 {
		text = "line " + strconv.Itoa(f.Line) + ": " + text
	}
	return text
}

// Faults is all that is wrong with a document; as an error it is never empty.
type Faults []Fault

// Error returns all faults, separated by semicolons.
func (f Faults) Error() string {
	words := make([]string, len(f))
	for i, fault := range f {
		words[i] = fault.Error()
	}
	return strings.Join(words, "; ")
}

// Unwrap returns the faults one by one.
func (f Faults) Unwrap() []error {
	all := make([]error, len(f))
	for i, fault := range f {
		all[i] = fault
	}
	return all
}

// At returns err as one that happened within the part of a document at path: the path
// of a Fault in err's tree is put under path, and any other error becomes the message.
// At of nil is nil.
func At(path string, err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[Fault](err); ok {
		f.Path = join(path, f.Path)
		return f
	}
	return Fault{Path: path, Message: err.Error()}
}

// join puts the path inner behind the path outer.
func join(outer, inner string) string {
	switch {
	case outer == "":
		return inner
	case inner == "", strings.HasPrefix(inner, "["):
		return outer + inner
	default:
		return outer + "." + inner
	}
}

// Member is the path of the member called name of the object at path. A name that would
// blur the path, such as one with a dot, is quoted.
func Member(path, name string) string { return join(path, nameStep(name)) }

// Element is the path of element i of the list at path.
func Element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// nameStep is the step of a path into the member called name.
func nameStep(name string) string {
	plain := name != ""
	for i := 0; i < len(name) && plain; i++ {
		c := name[i]
		plain = c == '_' || c == '-' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
	}
	if plain {
		return name
	}
	return "[" + strconv.Quote(name) + "]"
}

// OneOf reads one of some words, which stand in the order of their values.
func OneOf[T ~uint8](text []byte, words ...string) (T, error) {
	if i := slices.Index(words, string(text)); i >= 0 {
		return T(i), nil
	}
	return 0, fmt.Errorf("must be one of %s, is %q", strings.Join(words, ", "), text)
}
