package strict

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"
)

// faultsMax bounds the faults of a document that are listed; others are only counted.
const faultsMax = 100

// A Reader reads one document and collects its faults, including those that its user finds. The
// zero Reader is ready.
//
// Owned by one reading function.
type Reader struct {
	// Root is the document, or nil before it was read. A fault has the line of the node at
	// its path, or of the nearest parent.
	Root *Node
	// Base is the path of Root, if that is a part of a larger document.
	Base string
	// Unknown, unless nil, is called for each unknown member, which is then skipped and
	// is not a fault.
	Unknown func(Fault)
	// Nulls allows null for an absent list, map or pointer.
	Nulls bool
	// Over allows null for a field of a struct, which it leaves unchanged.
	Over bool

	faults  Faults
	further int                      // beyond faultsMax
	found   int                      // all faults added, also repeated ones
	known   map[reflect.Type][]field // of structs
	notes   Faults
}

// Fault adds a fault at a path, relative to Root. Only the first fault of a path is kept, so that
// a faulty value is not reported as missing too. For the same reason nothing is reported as
// missing in a value of the wrong type.
func (r *Reader) Fault(path, format string, args ...any) {
	at := join(r.Base, path)
	known := func(f Fault) bool { return f.Path == at }
	if path == "" || !slices.ContainsFunc(r.faults, known) && !r.mistyped(path) {
		r.add(Fault{Line: r.line(path), Path: at, Message: fmt.Sprintf(format, args...)})
	}
}

// mistyped reports whether a value on the way to path can have no members. Decoding has already
// added that as a fault.
func (r *Reader) mistyped(path string) bool {
	if r.Root == nil || r.Count() == 0 {
		return false
	}
	n, whole := r.Root.at(path)
	return !whole && n != r.Root && (n.Kind == Bool || n.Kind == Number || n.Kind == Text)
}

// AddFaults adds the faults in err, prepending path to their paths.
func (r *Reader) AddFaults(path string, err error) {
	faults, ok := errors.AsType[Faults](err)
	for _, f := range faults {
		if r.further += f.further; f.further == 0 {
			r.Fault(join(path, f.Path), "%s", f.Message)
		}
	}
	r.Check(err != nil && !ok, path, "%v", err)
}

// Check adds a fault at path if wrong is true.
func (r *Reader) Check(wrong bool, path, format string, args ...any) {
	if wrong {
		r.Fault(path, format, args...)
	}
}

// Range adds a fault if v is not from least to most.
func (r *Reader) Range(path string, v, least, most int64) {
	if v < least || v > most {
		r.Fault(path, "must be a whole number from %d to %d, is %d", least, most, v)
	}
}

// Filled adds a fault for each of some members of n, which is at path, that is an empty text.
func (r *Reader) Filled(n *Node, path string, names ...string) {
	for _, name := range names {
		if member := n.Member(name); member != nil && member.Kind == Text && len(member.Word) == 0 {
			r.Fault(MemberPath(path, name), "must not be empty")
		}
	}
}

// Note adds a note about something without effect.
func (r *Reader) Note(path, format string, args ...any) {
	if len(r.notes) < faultsMax {
		r.notes = append(r.notes, Fault{Line: r.line(path), Path: join(r.Base, path), Message: fmt.Sprintf(format, args...)})
	}
}

func (r *Reader) line(path string) int {
	if r.Root == nil {
		return 0
	}
	n, whole := r.Root.at(path)
	if n == r.Root && (path == "" || !whole) && r.Base == "" {
		return 0 // it concerns the whole file, or not the file, such as a setting
	}
	return n.Line
}

func (r *Reader) add(f Fault) {
	r.found++
	switch {
	case slices.Contains(r.faults, f): // a part may be decoded twice: before and after its type is known
	case len(r.faults) == faultsMax:
		r.further++
	default:
		r.faults = append(r.faults, f)
	}
}

// Count returns the number of faults.
func (r *Reader) Count() int { return len(r.faults) + r.further }

// Notes returns the notes, at most 100.
func (r *Reader) Notes() Faults { return r.notes }

// Err returns the faults as Faults in the order of lines, at most 100, or nil if there are none.
func (r *Reader) Err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int { return a.Line - b.Line })
	if r.further > 0 {
		r.faults = append(r.faults, Fault{Message: fmt.Sprintf("and %d more", r.further), further: r.further})
	}
	return r.faults
}

// File reads a file in JSON or YAML of at most bytesMax bytes, and reports whether there was no
// fault. The Root of an empty file is null without a Scalar.
func (r *Reader) File(data []byte, bytesMax int) bool {
	if !r.text(data, bytesMax) {
		return false
	}
	s := scanner{data: data, line: 1}
	n := new(Node)
	switch err := s.document(n); {
	case err == nil:
		r.Root = n
	case err.beyond != "":
		r.add(s.lined(err))
	default:
		r.yaml(data)
	}
	return len(r.faults) == 0
}

// Members reads a JSON file that is one object, and calls each for every member, so that a large
// file need not be in memory as nodes. It reports whether the text had no fault. The arguments
// of each are borrowed during the call.
func (r *Reader) Members(data []byte, bytesMax int, each func(name Name, value *Node)) bool {
	if !r.text(data, bytesMax) {
		return false
	}
	s := scanner{data: data, line: 1}
	var whole, value Node
	if s.peek() != '{' {
		if err := s.document(&whole); err != nil {
			r.add(s.lined(err))
		} else {
			r.add(Fault{Line: whole.Line, Message: fmt.Sprintf("must be %v, is %v", Object, &whole)})
		}
		return false
	}
	err := s.nested(&whole, func(int) *syntaxError {
		name, err := s.name()
		if err != nil {
			return err
		}
		value = Node{Names: value.Names[:0], Children: value.Children[:0]}
		s.count = 0
		if err := s.value(&value); err != nil {
			return err.within(nameStep(string(name.Word)))
		}
		each(name, &value)
		return nil
	}, '}', "a comma or the end of the object")
	if err == nil {
		err = s.end()
	}
	if err != nil {
		r.add(s.lined(err))
	}
	return err == nil
}

// lined returns a syntax error as a Fault with its line.
func (s *scanner) lined(e *syntaxError) Fault {
	line, _, message := s.fault(e)
	if e.beyond == "" {
		message = "not valid JSON: " + message
	}
	return Fault{Line: line, Message: message}
}

// text checks the size and the encoding of a file.
func (r *Reader) text(data []byte, bytesMax int) bool {
	if len(data) > bytesMax {
		r.add(Fault{Message: fmt.Sprintf("must be at most %d bytes, is %d", bytesMax, len(data))})
		return false
	}
	if utf8.Valid(data) {
		return true
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if !utf8.Valid(text) {
			break
		}
	}
	r.add(Fault{Line: line, Message: "must be UTF-8"})
	return false
}
