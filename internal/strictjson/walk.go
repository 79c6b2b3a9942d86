package strictjson

import (
	"fmt"
	"reflect"
	"strings"
)

// depthMax bounds how deep arrays and objects may be nested.
const depthMax = 32

// A walk goes along a document and the type it should have, together.
//
// Owned by one call of Decode.
type walk struct {
	scanner
	ignoreUnknown bool
	depth         int
}

// document walks the whole data.
func (w *walk) document(t reflect.Type) error {
	if err := w.value("", t); err != nil {
		return err
	}
	if w.peek(); w.pos < len(w.data) {
		return w.syntax("", &syntaxError{"nothing after the value", w.pos})
	}
	return nil
}

// value walks one value, which is at path and should be a t. t is nil for a
// value of no particular type.
func (w *walk) value(path string, t reflect.Type) error {
	s := shapeOf(t)
	if w.peek() == 'n' {
		if err := w.literal("null"); err != nil {
			return w.syntax(path, err)
		}
		if !s.nullable {
			return &Error{path, "must be " + s.noun + ", is null"}
		}
		return nil
	}
	switch s.kind {
	case shapePointer:
		return w.value(path, t.Elem())
	case shapeRaw:
		return w.skip(path)
	case shapeText, shapeCustom:
		return w.custom(path, t, s)
	case shapeAny:
		return w.any(path)
	}
	found := kindAt(w.peek())
	if found == "" {
		return w.syntax(path, &syntaxError{"a value", w.pos})
	}
	if found != s.wants {
		if err := w.skip(path); err != nil {
			return err
		}
		return &Error{path, "must be " + s.noun + ", is " + found}
	}
	return w.typed(path, t, s)
}

// typed walks a value that is of the right kind.
func (w *walk) typed(path string, t reflect.Type, s shape) error {
	switch s.kind {
	case shapeStruct:
		return w.object(path, &structVisitor{walk: w, fields: fieldsOf(t)})
	case shapeMap:
		return w.object(path, &mapVisitor{walk: w, elem: t.Elem(), seen: make(map[string]bool)})
	case shapeSlice:
		return w.array(path, t.Elem())
	case shapeNumber:
		text, err := w.number()
		if err != nil {
			return w.syntax(path, err)
		}
		if problem := checkNumber(text, t); problem != "" {
			return &Error{path, problem}
		}
		return nil
	default:
		return w.scalar(path)
	}
}

// any walks a value of no particular type, whose names must not be doubled.
func (w *walk) any(path string) error {
	switch w.peek() {
	case '{':
		return w.object(path, &mapVisitor{walk: w, seen: make(map[string]bool)})
	case '[':
		return w.array(path, nil)
	default:
		return w.scalar(path)
	}
}

// skip walks a value of which only the syntax matters.
func (w *walk) skip(path string) error {
	switch w.peek() {
	case '{':
		return w.object(path, skipVisitor{w})
	case '[':
		return w.list(path, func(string) error { return w.skip(path) })
	default:
		return w.scalar(path)
	}
}

// scalar walks a value that is neither an object nor an array.
func (w *walk) scalar(path string) error {
	var err *syntaxError
	switch kindAt(w.peek()) {
	case kindString:
		_, err = w.string()
	case kindNumber:
		_, err = w.number()
	case kindBool:
		word := "true"
		if w.peek() == 'f' {
			word = "false"
		}
		err = w.literal(word)
	case kindNull:
		err = w.literal("null")
	default:
		err = &syntaxError{"a value", w.pos}
	}
	return w.syntax(path, err)
}

// array walks an array of elements of type elem.
func (w *walk) array(path string, elem reflect.Type) error {
	return w.list(path, func(at string) error { return w.value(at, elem) })
}

// list walks an array; element walks the element at a path.
func (w *walk) list(path string, element func(at string) error) error {
	if err := w.enter(path); err != nil {
		return err
	}
	if w.take(']') {
		return w.leave()
	}
	for i := 0; ; i++ {
		if err := element(path + indexStep(i)); err != nil {
			return err
		}
		if w.take(']') {
			return w.leave()
		}
		if !w.take(',') {
			return w.syntax(path, &syntaxError{"a comma or the end of the array", w.pos})
		}
	}
}

// A visitor is shown the members of an object. member is called with the walk
// before the member's value and must walk it.
type visitor interface {
	member(path, name string) error
}

// object walks an object.
func (w *walk) object(path string, v visitor) error {
	if err := w.enter(path); err != nil {
		return err
	}
	if w.take('}') {
		return w.leave()
	}
	for {
		if w.peek() != '"' {
			return w.syntax(path, &syntaxError{"a name in quotes", w.pos})
		}
		name, err := w.string()
		if err != nil {
			return w.syntax(path, err)
		}
		if !w.take(':') {
			return w.syntax(path, &syntaxError{"a colon", w.pos})
		}
		if err := v.member(path, name); err != nil {
			return err
		}
		if w.take('}') {
			return w.leave()
		}
		if !w.take(',') {
			return w.syntax(path, &syntaxError{"a comma or the end of the object", w.pos})
		}
	}
}

// enter consumes the opening bracket of an array or object.
func (w *walk) enter(path string) error {
	w.pos++
	w.depth++
	if w.depth > depthMax {
		return &Error{path, fmt.Sprintf("nested deeper than %d levels", depthMax)}
	}
	return nil
}

// leave is called after the closing bracket.
func (w *walk) leave() error {
	w.depth--
	return nil
}

// syntax makes an Error of err, or nil of nil.
func (w *walk) syntax(path string, err *syntaxError) error {
	if err == nil {
		return nil
	}
	return &Error{path, w.message(err)}
}

// A structVisitor walks the members of a struct.
type structVisitor struct {
	walk   *walk
	fields []field
	seen   uint64 // a bit per field
}

func (v *structVisitor) member(path, name string) error {
	at := join(path, nameStep(name))
	for i, f := range v.fields {
		switch {
		case f.name == name && v.seen&(1<<i) != 0:
			return &Error{at, "given twice"}
		case f.name == name:
			v.seen |= 1 << i
			return v.walk.value(at, f.typ)
		}
	}
	for _, f := range v.fields {
		if strings.EqualFold(f.name, name) {
			return &Error{at, "must be written " + f.name}
		}
	}
	if v.walk.ignoreUnknown {
		return v.walk.skip(at)
	}
	return &Error{at, "unknown field; allowed: " + fieldNames(v.fields)}
}

// A mapVisitor walks the members of a map, and of an object of no particular
// type.
type mapVisitor struct {
	walk *walk
	elem reflect.Type // nil: no particular type
	seen map[string]bool
}

func (v *mapVisitor) member(path, name string) error {
	at := join(path, nameStep(name))
	if v.seen[name] {
		return &Error{at, "given twice"}
	}
	v.seen[name] = true
	return v.walk.value(at, v.elem)
}

// A skipVisitor passes over the members of an object.
type skipVisitor struct{ walk *walk }

func (v skipVisitor) member(path, _ string) error { return v.walk.skip(path) }
