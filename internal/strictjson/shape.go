package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a JSON value is, in the words of error messages.
const (
	kindObject = "an object"
	kindArray  = "an array"
	kindString = "a string"
	kindNumber = "a number"
	kindBool   = "true or false"
	kindNull   = "null"
)

// kindAt returns what the value that starts with c must be; empty for a byte
// that starts none.
func kindAt(c byte) string {
	switch {
	case c == '{':
		return kindObject
	case c == '[':
		return kindArray
	case c == '"':
		return kindString
	case c == '-', '0' <= c && c <= '9':
		return kindNumber
	case c == 't', c == 'f':
		return kindBool
	case c == 'n':
		return kindNull
	default:
		return ""
	}
}

// A shapeKind says how the walk treats a type.
type shapeKind uint8

const (
	shapeScalar  shapeKind = iota // bool and string: the kind is all there is to check
	shapeNumber                   // integers and floats: also their range
	shapeStruct                   // the names are known
	shapeMap                      // any name, values of one type
	shapeSlice                    // values of one type
	shapePointer                  // null or a value of the type behind
	shapeAny                      // anything, without doubled names
	shapeRaw                      // anything
	shapeText                     // a string that the type itself understands
	shapeCustom                   // anything that the type itself understands
)

// A shape is what the walk needs to know of a type.
type shape struct {
	kind     shapeKind
	wants    string // the JSON kind
	noun     string // the JSON kind, more precisely, for messages
	nullable bool
}

var (
	rawType    = reflect.TypeFor[Raw]()
	timeType   = reflect.TypeFor[time.Time]()
	customType = reflect.TypeFor[json.Unmarshaler]()
	textType   = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// shapeOf returns the shape of t; a nil t is any. It panics for a type that
// this package does not decode: that is found by the first test.
func shapeOf(t reflect.Type) shape {
	switch {
	case t == nil:
		return shape{kind: shapeAny, nullable: true}
	case t.Kind() == reflect.Pointer:
		return shape{kind: shapePointer, nullable: true}
	case t == rawType:
		return shape{kind: shapeRaw, nullable: true}
	case t == timeType:
		return shape{kind: shapeText, noun: "a time such as 2026-01-19T16:30:00Z"}
	case reflect.PointerTo(t).Implements(customType):
		return shape{kind: shapeCustom, noun: "a value"}
	case reflect.PointerTo(t).Implements(textType):
		return shape{kind: shapeText, noun: kindString}
	}
	switch t.Kind() {
	case reflect.Bool:
		return shape{kind: shapeScalar, wants: kindBool, noun: kindBool}
	case reflect.String:
		return shape{kind: shapeScalar, wants: kindString, noun: kindString}
	case reflect.Float32, reflect.Float64:
		return shape{kind: shapeNumber, wants: kindNumber, noun: kindNumber}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return shape{kind: shapeNumber, wants: kindNumber, noun: "a whole number"}
	case reflect.Struct:
		return shape{kind: shapeStruct, wants: kindObject, noun: kindObject}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // those are base64 text to other decoders
			return shape{kind: shapeSlice, wants: kindArray, noun: kindArray, nullable: true}
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !reflect.PointerTo(t.Key()).Implements(textType) {
			return shape{kind: shapeMap, wants: kindObject, noun: kindObject, nullable: true}
		}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return shape{kind: shapeAny, nullable: true}
		}
	}
	panic(fmt.Sprintf("bug: strictjson: cannot decode into %s", t))
}

// A field is a field of a struct under its JSON name.
type field struct {
	name string
	typ  reflect.Type
}

// fieldsMax is how many fields a struct may have: as many as a word has bits.
const fieldsMax = 64

// fieldsOf returns the fields of t in the order of their declaration.
func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			panic(fmt.Sprintf("bug: strictjson: %s embeds %s", t, f.Name))
		}
		tag := f.Tag.Get("json")
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		if strings.Contains(","+options+",", ",string,") {
			panic(fmt.Sprintf("bug: strictjson: %s.%s has the option string", t, f.Name))
		}
		if slices.ContainsFunc(fields, func(other field) bool { return other.name == name }) {
			panic(fmt.Sprintf("bug: strictjson: %s has two fields called %s", t, name))
		}
		fields = append(fields, field{name: name, typ: f.Type})
	}
	if len(fields) > fieldsMax {
		panic(fmt.Sprintf("bug: strictjson: %s has more than %d fields", t, fieldsMax))
	}
	return fields
}

// fieldNames lists the names for a message.
func fieldNames(fields []field) string {
	if len(fields) == 0 {
		return "none"
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

// checkNumber returns what is wrong with a number as a t; empty when nothing.
func checkNumber(text string, t reflect.Type) string {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		if _, err := strconv.ParseFloat(text, t.Bits()); err != nil {
			return "is out of range: " + text
		}
		return ""
	}
	if strings.ContainsAny(text, ".eE") {
		return "must be a whole number, is " + text
	}
	switch t.Kind() {
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if strings.HasPrefix(text, "-") {
			return "must not be negative, is " + text
		}
		if _, err := strconv.ParseUint(text, 10, t.Bits()); err != nil {
			return "is out of range: " + text
		}
	default:
		if _, err := strconv.ParseInt(text, 10, t.Bits()); err != nil {
			return "is out of range: " + text
		}
	}
	return ""
}
