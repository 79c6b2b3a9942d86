package strictjson

import (
	"errors"
	"strconv"
	"strings"
)

// An Error says what is wrong and where.
type Error struct {
	// Path leads to the faulty field, as in `profile.params.rps` or
	// `steps[2].rps`; it is empty when the document as a whole is meant.
	Path string
	// Message is what is wrong, without the path.
	Message string
}

// Error returns "path: message", or the message alone.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// At returns err as one that happened within the part of a document at path:
// the path of an *Error in err's tree is put behind path, and any other error
// becomes the message. It is for whoever decodes a Raw, or checks values after
// decoding. At of nil is nil.
func At(path string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Path: join(path, e.Path), Message: e.Message}
	}
	return &Error{Path: path, Message: err.Error()}
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

// nameStep is the step of a path into the field or key called name. A name that
// would blur the path, such as one with a dot, is quoted.
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

// indexStep is the step of a path into element i of an array.
func indexStep(i int) string { return "[" + strconv.Itoa(i) + "]" }
