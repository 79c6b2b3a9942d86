package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
)

// custom walks a value that its type decodes by itself: the type is asked here,
// on a value that is thrown away, so that what it refuses is told with the path.
func (w *walk) custom(path string, t reflect.Type, s shape) error {
	start := w.pos
	found := kindAt(w.peek())
	text, err := w.extent(path)
	if err != nil {
		return err
	}
	value := reflect.New(t).Interface()
	if s.kind == shapeCustom {
		return At(path, value.(json.Unmarshaler).UnmarshalJSON(w.data[start:w.pos]))
	}
	if found != kindString {
		return &Error{path, "must be " + s.noun + ", is " + found}
	}
	err = value.(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	if err != nil && t == timeType {
		return &Error{path, "must be " + s.noun + ", is " + strconv.Quote(text)}
	}
	return At(path, err)
}

// extent passes over a value and returns what it means when it is a string.
func (w *walk) extent(path string) (string, error) {
	if w.peek() != '"' {
		return "", w.skip(path)
	}
	text, err := w.string()
	return text, w.syntax(path, err)
}
