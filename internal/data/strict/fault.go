package strict

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Fault is one fault of a document or a setting, also in JSON.
type Fault struct {
	Line    int    `json:"line,omitempty"` // of the file, from 1; 0: not known
	Path    string `json:"path,omitempty"` // such as rules[2].match.path; empty for the whole
	Message string `json:"message"`        // what is allowed and what was found

	further int // how many faults this one stands for, which were too many to list; else 0
}

// Error returns "line 7: path: message", without unknown parts.
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

// Faults are all faults of a document; as an error they are never empty.
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

// WithPath returns err as an error about the part of a document at path: it prepends path to the path
// of a Fault in err's tree, and any other error becomes the message. At of nil is nil.
func WithPath(path string, err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[Fault](err); ok {
		f.Path = join(path, f.Path)
		return f
	}
	return Fault{Path: path, Message: err.Error()}
}

// join appends the path inner to the path outer.
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

// MemberPath returns the path of a member of the object at path. A name with special characters, such
// as a dot, is quoted.
func MemberPath(path, name string) string { return join(path, nameStep(name)) }

// ElementPath returns the path of element i of the list at path.
func ElementPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// nameStep returns the last step of the path of a member.
func nameStep(name string) string {
	special := func(c rune) bool {
		return c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}
	if name == "" || strings.ContainsFunc(name, special) {
		return "[" + strconv.Quote(name) + "]"
	}
	return name
}

// OneOf parses one of some words, which are in the order of their values.
func OneOf[T ~uint8](text []byte, words ...string) (T, error) {
	if i := slices.Index(words, string(text)); i >= 0 {
		return T(i), nil
	}
	return 0, fmt.Errorf("must be one of %s, is %q", strings.Join(words, ", "), text)
}
