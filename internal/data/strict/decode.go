package strict

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Decode decodes data, which must be one JSON value, into what into points to. An error is the
// first Fault of the document, without a line; then *into is unchanged.
//
// Decode replaces the value completely. Set defaults after decoding, or use DecodeOverDefaults, or
// pointers, which stay nil.
func Decode(data []byte, into any) error {
	return decode(data, into, decoder{Reader: &Reader{Nulls: true}})
}

// DecodeOverDefaults is like Decode over the defaults in *into: struct fields that are absent or null in the
// document are unchanged, except below pointers, lists and maps, which are created again.
func DecodeOverDefaults(data []byte, into any) error {
	return decode(data, into, decoder{Reader: &Reader{Nulls: true, Over: true}})
}

// DecodeIgnoringUnknown is like Decode, for documents of other programs: members with unknown names
// are skipped. A known name in the wrong case is still an error.
func DecodeIgnoringUnknown(data []byte, into any) error {
	return DecodeReportingUnknown(data, into, func(Fault) {})
}

// DecodeReportingUnknown is like DecodeIgnoringUnknown, and calls unknown for each member skipped.
func DecodeReportingUnknown(data []byte, into any, unknown func(Fault)) error {
	return decode(data, into, decoder{Reader: &Reader{Nulls: true, Unknown: unknown}})
}

func decode(data []byte, into any, d decoder) error {
	target := targetOf(into)
	s := scanner{data: data, line: 1}
	var n Node
	if wrong := s.document(&n); wrong != nil {
		return s.whole(wrong)
	}
	fresh := reflect.New(target.Type()).Elem()
	if d.Over {
		fresh.Set(target)
	}
	d.data = data
	d.value(&n, nil, fresh)
	if len(d.faults) > 0 {
		return Fault{Path: d.faults[0].Path, Message: d.faults[0].Message}
	}
	target.Set(fresh)
	return nil
}

// Decode decodes a node of Root, which is at path, into what into points to. Fields that the node
// does not have are unchanged. It reports whether there was no fault.
func (r *Reader) Decode(n *Node, path string, into any) bool {
	before := r.found
	d := decoder{Reader: r}
	var at *place
	if path != "" {
		at = &place{path: path}
	}
	d.value(n, at, targetOf(into))
	return r.found == before
}

func targetOf(into any) reflect.Value {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		panic(fmt.Sprintf("bug: strict: decode into %T, want a pointer", into))
	}
	return target.Elem()
}

// A place is the position of a value. Its path is formatted only for a fault.
type place struct {
	up   *place
	name []byte // of a member; nil: an element
	i    int    // index of an element
	path string // of the root
}

func (p *place) String() string {
	switch {
	case p == nil:
		return ""
	case p.path != "":
		return p.path
	case p.name != nil:
		return MemberPath(p.up.String(), string(p.name))
	}
	return ElementPath(p.up.String(), p.i)
}

// A decoder decodes nodes into values by their types.
//
// Owned by one call of Decode.
type decoder struct {
	*Reader
	data []byte // source of Raw values
}

// Raw is a JSON value that is kept as written, to be decoded later when its type is known. Its
// syntax is checked, but not its names. Use At for the errors of the later decoding, so that
// they have the full path.
type Raw = json.RawMessage

var (
	rawType  = reflect.TypeFor[Raw]()
	wordType = reflect.TypeFor[Scalar]()
	nodeType = reflect.TypeFor[*Node]()
	timeType = reflect.TypeFor[time.Time]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	selfType = reflect.TypeFor[nodeReader]()
)

// A nodeReader decodes a node, which is at path, into itself, for values with several forms. It
// adds faults to r.
type nodeReader interface {
	ReadNode(r *Reader, n *Node, path string)
}

// A Scalar is the text of a scalar of any kind as written, for values that are compared with text:
// they need no quotes even if they look like numbers.
type Scalar string

func (d *decoder) fault(line int, at *place, format string, args ...any) {
	d.add(Fault{Line: line, Path: join(d.Base, at.String()), Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) value(n *Node, at *place, v reflect.Value) {
	t := v.Type()
	named := t.PkgPath() != "" // others have no methods, and Implements is slow
	switch {
	case t == nodeType:
		v.Set(reflect.ValueOf(n))
		return
	case t == rawType:
		v.SetBytes(bytes.Clone(d.data[n.start:n.end]))
		return
	case n.Kind == Null && d.Nulls && nullable(t.Kind()):
		v.SetZero()
		return
	case t.Kind() == reflect.Pointer:
		fresh := reflect.New(t.Elem())
		d.value(n, at, fresh.Elem())
		v.Set(fresh)
		return
	case t == wordType && n.Kind > Null && n.Kind < List:
		v.SetString(string(n.Word))
		return
	case named && reflect.PointerTo(t).Implements(selfType):
		v.Addr().Interface().(nodeReader).ReadNode(d.Reader, n, at.String())
		return
	case named && reflect.PointerTo(t).Implements(textType):
		d.text(n, at, v)
		return
	case t.Kind() == reflect.Interface && t.NumMethod() == 0:
		d.any(n, at, v)
		return
	}
	want, noun := wanted(t)
	if n.Kind != want {
		d.fault(n.Line, at, "must be %s, is %v", noun, n)
		return
	}
	switch want {
	case Bool:
		v.SetBool(n.Word[0]|0x20 == 't')
	case Number:
		if problem := setNumber(v, string(n.Word)); problem != "" {
			d.fault(n.Line, at, "%s", problem)
		}
	case Text:
		v.SetString(string(n.Word))
	case List:
		list := reflect.MakeSlice(t, len(n.Children), len(n.Children))
		for i := range n.Children {
			d.value(&n.Children[i], &place{up: at, i: i}, list.Index(i))
		}
		v.Set(list)
	case Object:
		if t.Kind() == reflect.Map {
			d.mapOf(n, at, v)
		} else {
			d.structOf(n, at, v)
		}
	}
}

func nullable(k reflect.Kind) bool {
	return k == reflect.Pointer || k == reflect.Slice || k == reflect.Map || k == reflect.Interface
}

// wanted returns the kind of value for a type, and its name in faults. It panics for a type that
// this package does not decode.
func wanted(t reflect.Type) (k Kind, noun string) {
	switch t.Kind() {
	case reflect.Bool:
		k = Bool
	case reflect.String:
		k = Text
	case reflect.Float32, reflect.Float64:
		k = Number
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Number, "a whole number"
	case reflect.Struct, reflect.Map:
		k = Object
	case reflect.Slice:
		k = List
	}
	if k == Null || k == List && t.Elem().Kind() == reflect.Uint8 || t.Kind() == reflect.Map &&
		t.Key().Kind() != reflect.String {
		panic(fmt.Sprintf("bug: strict: cannot decode into %s", t))
	}
	return k, k.String()
}

// text decodes a string by the type's UnmarshalText.
func (d *decoder) text(n *Node, at *place, v reflect.Value) {
	if n.Kind != Text {
		d.fault(n.Line, at, "must be %s, is %v", textNoun(v.Type()), n)
		return
	}
	err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(n.Word)
	switch {
	case err != nil && v.Type() == timeType:
		d.fault(n.Line, at, "must be %s, is %v", textNoun(timeType), n)
	case err != nil:
		d.fault(n.Line, at, "%v", err)
	}
}

// textNoun returns the name in faults for the texts of a type: that in the type's error for the
// empty text, if the error has the form of our faults.
func textNoun(t reflect.Type) string {
	if t == timeType {
		return "a time such as 2026-01-19T16:30:00Z"
	}
	if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText(nil); err != nil {
		noun, must := strings.CutPrefix(err.Error(), "must be ")
		if noun, empty := strings.CutSuffix(noun, `, is ""`); must && empty {
			return noun
		}
	}
	return Text.String()
}

// anyTypes are the types of values in an any, by kind, as in encoding/json.
var anyTypes = [...]reflect.Type{Bool: reflect.TypeFor[bool](), Number: reflect.TypeFor[float64](),
	Text: reflect.TypeFor[string](),
	List: reflect.TypeFor[[]any](), Object: reflect.TypeFor[map[string]any]()}

func (d *decoder) any(n *Node, at *place, v reflect.Value) {
	if n.Kind != Null {
		as := reflect.New(anyTypes[n.Kind]).Elem()
		d.value(n, at, as)
		v.Set(as)
	}
}

func (d *decoder) mapOf(n *Node, at *place, v reflect.Value) {
	t := v.Type()
	m := reflect.MakeMapWithSize(t, len(n.Children))
	twice := n.twice()
	for i, name := range n.Names {
		here := &place{up: at, name: name.Word}
		if twice(i) {
			d.fault(name.Line, here, "given twice")
		}
		elem := reflect.New(t.Elem()).Elem()
		d.value(&n.Children[i], here, elem)
		m.SetMapIndex(reflect.ValueOf(string(name.Word)).Convert(t.Key()), elem)
	}
	v.Set(m)
}

func (d *decoder) structOf(n *Node, at *place, v reflect.Value) {
	fields := d.fields(v.Type())
	twice := n.twice()
	for i, name := range n.Names {
		here := &place{up: at, name: name.Word}
		f := slices.IndexFunc(fields, func(f field) bool { return f.name == string(name.Word) })
		switch {
		case f < 0:
			d.unknown(name, here, fields, twice(i))
		case twice(i):
			d.fault(name.Line, here, "given twice")
		case d.Over && n.Children[i].Kind == Null:
		default:
			d.value(&n.Children[i], here, v.FieldByIndex(fields[f].index))
		}
	}
}

// fields caches fieldsOf by type.
func (d *decoder) fields(t reflect.Type) []field {
	if d.known[t] == nil {
		if d.known == nil {
			d.known = make(map[reflect.Type][]field)
		}
		d.known[t] = fieldsOf(t, nil, make([]field, 0, t.NumField()))
	}
	return d.known[t]
}

// unknown handles a member without a field of its name.
func (d *decoder) unknown(name Name, at *place, fields []field, twice bool) {
	for _, f := range fields {
		if strings.EqualFold(f.name, string(name.Word)) {
			d.fault(name.Line, at, "must be written %s", f.name)
			return
		}
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	why := "unknown field; allowed: " + strings.Join(names, ", ")
	switch {
	case d.Unknown != nil:
		d.Unknown(Fault{Line: name.Line, Path: at.String(), Message: why})
	case twice:
		d.fault(name.Line, at, "given twice")
	default:
		d.fault(name.Line, at, "%s", why)
	}
}

// A field is a field of a struct under its JSON name.
type field struct {
	name  string
	index []int
}

// fieldsOf appends the fields of t in the order of their declaration, including those of
// embedded structs.
func fieldsOf(t reflect.Type, within []int, fields []field) []field {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clip(within), i)
		tag := f.Tag.Get("json")
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			fields = fieldsOf(f.Type, index, fields)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		if options == "string" || slices.ContainsFunc(fields, func(other field) bool { return other.name == name }) {
			panic(fmt.Sprintf("bug: strict: %s.%s has the option string, or the name of another field", t, f.Name))
		}
		fields = append(fields, field{name, index})
	}
	return fields
}

// setNumber sets v to a number, or returns what is wrong with the number.
func setNumber(v reflect.Value, text string) string {
	var err error
	switch {
	case v.CanFloat():
		var f float64
		if f, err = strconv.ParseFloat(text, v.Type().Bits()); err == nil {
			v.SetFloat(f)
		}
	case strings.ContainsAny(text, ".eE"):
		return "must be a whole number, is " + text
	case v.CanUint() && strings.HasPrefix(text, "-"):
		return "must not be negative, is " + text
	case v.CanUint():
		var u uint64
		if u, err = strconv.ParseUint(text, 10, v.Type().Bits()); err == nil {
			v.SetUint(u)
		}
	default:
		var i int64
		if i, err = strconv.ParseInt(text, 10, v.Type().Bits()); err == nil {
			v.SetInt(i)
		}
	}
	if err != nil {
		return "is out of range: " + text
	}
	return ""
}
