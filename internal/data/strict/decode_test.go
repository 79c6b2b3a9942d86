package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// word is a type with a text form of its own.
type word string

func (w *word) UnmarshalText(text []byte) error {
	if string(text) != "fixed" && string(text) != "token" {
		return fmt.Errorf("unknown word %q; allowed: fixed, token", text)
	}
	*w = word(text)
	return nil
}

// An embedded struct's fields are those of the struct around it.
type Plan struct {
	Tier string `json:"tier,omitempty"`
}

type step struct {
	RPS      float64 `json:"rps"`
	Duration float64 `json:"duration"`
}

// document has one field of every supported sort.
type document struct {
	Algorithm word              `json:"algorithm"`
	Limit     int64             `json:"limit"`
	Small     int8              `json:"small,omitempty"`
	Port      uint16            `json:"port"`
	Window    float64           `json:"window"`
	Single    float32           `json:"single"`
	Shadow    bool              `json:"shadow"`
	Name      string            `json:"name"`
	Steps     []step            `json:"steps"`
	Headers   map[string]string `json:"headers"`
	Clients   map[string]step   `json:"clients"`
	Burst     *int              `json:"burst"`
	Nested    *document         `json:"nested"`
	Params    Raw               `json:"params"`
	Plan
	At       time.Time `json:"at"`
	Extra    any       `json:"extra"`
	Untagged int
	Ignored  int `json:"-"`
	private  int //lint:ignore U1000 decoders must pass it over
}

func TestDecode(t *testing.T) {
	burst := 3
	f := func(data string, want document) {
		t.Helper()
		have := document{Limit: 77, Name: "what was there before"}
		if err := Decode([]byte(data), &have); err != nil {
			t.Errorf("%s: %v", data, err)
		} else if !reflect.DeepEqual(have, want) {
			t.Errorf("%s:\nhave %+v\nwant %+v", data, have, want)
		}
	}
	f(`{}`, document{})
	f(" \t\r\n{ \"limit\" : -5 , \"port\":0 } \n", document{Limit: -5})
	f(`{"algorithm":"token","limit":9223372036854775807}`, document{Algorithm: "token", Limit: math.MaxInt64})
	f(`{"small":-128,"port":65535}`, document{Small: -128, Port: 65535})
	f(`{"window":1e-3,"single":0.5,"shadow":true}`, document{Window: 0.001, Single: 0.5, Shadow: true})
	f(`{"name":"a\u00e4\ud83d\ude00\n\"\/é"}`, document{Name: "aä😀\n\"/é"})
	f(`{"\u006eame":"escaped name"}`, document{Name: "escaped name"})
	f(`{"steps":[],"headers":{},"clients":{}}`, document{Steps: []step{}, Headers: map[string]string{},
		Clients: map[string]step{}})
	f(`{"steps":null,"headers":null,"burst":null,"params":null,"extra":null}`, document{Params: Raw("null")})
	f(`{"steps":[{"rps":1},{"duration":2}]}`, document{Steps: []step{{RPS: 1}, {Duration: 2}}})
	f(`{"headers":{"X-Plan":"free","x-plan":"other"}}`,
		document{Headers: map[string]string{"X-Plan": "free", "x-plan": "other"}})
	f(`{"burst":3,"nested":{"limit":1}}`, document{Burst: &burst, Nested: &document{Limit: 1}})
	f(`{"params": {"any" : [1,{"any":2,"any":3}]} }`, document{Params: Raw(`{"any" : [1,{"any":2,"any":3}]}`)})
	f(`{"tier":"gold"}`, document{Plan: Plan{"gold"}})
	f(`{"at":"2026-01-19T16:30:00Z"}`, document{At: time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)})
	f(`{"extra":{"a":[1,"b",null,false]}}`, document{Extra: map[string]any{"a": []any{1.0, "b", nil, false}}})
	f(`{"Untagged":1}`, document{Untagged: 1})
}

func TestDecodeRefuses(t *testing.T) {
	f := func(data, path, message string) {
		t.Helper()
		have := document{Limit: 77, Headers: map[string]string{"a": "b"}}
		err := Decode([]byte(data), &have)
		var e Fault
		if !errors.As(err, &e) {
			t.Errorf("%s: have %v, want %s: %s", data, err, path, message)
			return
		}
		if e.Path != path || !strings.HasPrefix(e.Message, message) {
			t.Errorf("%s:\nhave %q %q\nwant %q %q", data, e.Path, e.Message, path, message)
		}
		if !reflect.DeepEqual(have, document{Limit: 77, Headers: map[string]string{"a": "b"}}) {
			t.Errorf("%s: the value was touched: %+v", data, have)
		}
	}
	// Names.
	f(`{"limits":1}`, "limits", "unknown field; allowed: algorithm, limit, small, port, window,")
	f(`{"nested":{"steps":[{},{"rsp":1}]}}`, "nested.steps[1].rsp", "unknown field; allowed: rps, duration")
	f(`{"Limit":1}`, "Limit", "must be written limit")
	f(`{"untagged":1}`, "untagged", "must be written Untagged")
	f(`{"Ignored":1}`, "Ignored", "unknown field")
	f(`{"private":1}`, "private", "unknown field")
	f(`{"":1}`, `[""]`, "unknown field")
	f(`{"a.b":1}`, `["a.b"]`, "unknown field")
	f(`{"limit":1,"name":"x","limit":1}`, "limit", "given twice")
	f(`{"limit":1,"\u006cimit":1}`, "limit", "given twice")
	f(`{"headers":{"X-Plan":"a","X-Plan":"b"}}`, "headers.X-Plan", "given twice")
	f(`{"headers":{"X Plan":1}}`, `headers["X Plan"]`, "must be a string, is 1")
	f(`{"extra":[{"a":1,"a":2}]}`, "extra[0].a", "given twice")
	// Types.
	f(`[]`, "", "must be an object, is a list")
	f(`null`, "", "must be an object, is null")
	f(`{"limit":"1"}`, "limit", `must be a whole number, is "1"`)
	f(`{"window":true}`, "window", "must be a number, is true")
	f(`{"name":1}`, "name", "must be a string, is 1")
	f(`{"shadow":"yes"}`, "shadow", `must be true or false, is "yes"`)
	f(`{"steps":{}}`, "steps", "must be a list, is an object")
	f(`{"headers":[]}`, "headers", "must be an object, is a list")
	f(`{"limit":null}`, "limit", "must be a whole number, is null")
	f(`{"steps":[null]}`, "steps[0]", "must be an object, is null")
	f(`{"algorithm":1}`, "algorithm", "must be a string, is 1")
	f(`{"algorithm":null}`, "algorithm", "must be a string, is null")
	f(`{"algorithm":"tokens"}`, "algorithm", `unknown word "tokens"; allowed: fixed, token`)
	f(`{"at":1}`, "at", "must be a time such as 2026-01-19T16:30:00Z, is 1")
	f(`{"at":"yesterday"}`, "at", `must be a time such as 2026-01-19T16:30:00Z, is "yesterday"`)
	// Numbers.
	f(`{"limit":1.0}`, "limit", "must be a whole number, is 1.0")
	f(`{"limit":1e3}`, "limit", "must be a whole number, is 1e3")
	f(`{"limit":9223372036854775808}`, "limit", "is out of range: 9223372036854775808")
	f(`{"small":128}`, "small", "is out of range: 128")
	f(`{"port":-1}`, "port", "must not be negative, is -1")
	f(`{"port":65536}`, "port", "is out of range: 65536")
	f(`{"window":1e999}`, "window", "is out of range: 1e999")
	f(`{"single":1e39}`, "single", "is out of range: 1e39")
	// Syntax.
	f(``, "", "not valid JSON: line 1, column 1: want a value, have the end")
	f(`{"limit":1} {}`, "", "not valid JSON: line 1, column 13: want nothing after the value, have '{'")
	f("{\"limit\":1}\x00", "", "not valid JSON: line 1, column 12: want nothing after the value")
	f("{\n \"näme\" 1}", "", "not valid JSON: line 2, column 9: want a colon, have '1'")
	f(`{"limit":NaN}`, "limit", "not valid JSON: line 1, column 10: want a value, have 'N'")
	f(`{"limit":nil}`, "limit", "not valid JSON")
	f(`{"shadow":True}`, "shadow", "not valid JSON")
	f(`{"shadow":tru}`, "shadow", "not valid JSON")
	f(`{"limit":01}`, "limit", "not valid JSON: line 1, column 10: want a number")
	f(`{"limit":+1}`, "limit", "not valid JSON")
	f(`{"limit":-}`, "limit", "not valid JSON")
	f(`{"window":1.}`, "window", "not valid JSON: line 1, column 13: want a digit after the point")
	f(`{"window":1e}`, "window", "not valid JSON: line 1, column 13: want a digit in the exponent")
	f(`{"limit":1,}`, "", "not valid JSON: line 1, column 12: want a name in quotes, have '}'")
	f(`{"steps":[{},]}`, "steps[1]", "not valid JSON")
	f(`{"steps":[{} {}]}`, "steps", "not valid JSON: line 1, column 14: want a comma or the end of the list")
	f(`{"limit":1 "name":""}`, "", "not valid JSON: line 1, column 12: want a comma or the end of the object")
	f(`{limit:1}`, "", "not valid JSON: line 1, column 2: want a name in quotes, have 'l'")
	f(`{"name":'x'}`, "name", "not valid JSON")
	f(`{"name":"x`, "name", "not valid JSON: line 1, column 11: want a closing quote, have the end")
	f("{\"name\":\"\n\"}", "name", "not valid JSON: line 1, column 10: want an escape for the control character")
	f("{\"name\":\"\xff\"}", "name", "not valid JSON: line 1, column 10: want valid UTF-8")
	f(`{"name":"\x"}`, "name", "not valid JSON: line 1, column 10: want an escape sequence")
	f(`{"name":"\ud800"}`, "name", "not valid JSON")
	f(`{"name":"\ud800\u0041"}`, "name", "not valid JSON")
	f(`{"name":"\udc00\ud800"}`, "name", "not valid JSON")
	f(`{"name":"\u12"}`, "name", "not valid JSON")
	f(`{"name":"\u+123"}`, "name", "not valid JSON")
	f(`{"params":{"a":}}`, "params.a", "not valid JSON")
	f(`{"params":[1 2]}`, "params", "not valid JSON")
	f("// note\n{}", "", "not valid JSON")
	f("\ufeff{}", "", "not valid JSON")
}

// Decoding over defaults changes only what the document has, also within objects.
func TestDecodeOver(t *testing.T) {
	type both struct {
		Step step              `json:"step"`
		Name string            `json:"name"`
		Tags map[string]string `json:"tags"`
		Last *step             `json:"last"`
		All  []step            `json:"all"`
	}
	usual := both{step{1, 2}, "a", map[string]string{"b": "c"}, &step{3, 4}, []step{{5, 6}, {7, 8}}}
	anew := usual // below pointers and lists there are no defaults
	anew.Last, anew.All = &step{RPS: 5}, []step{{}}
	for text, want := range map[string]both{
		`{}`: usual,
		`{"step":{"rps":5},"name":null,"tags":{"d":"e"}}`: {step{5, 2}, "a", map[string]string{"d": "e"}, usual.Last,
			usual.All},
		`{"step":null,"name":"","tags":null}`:           {step{1, 2}, "", usual.Tags, usual.Last, usual.All},
		`{"last":{"rps":5,"duration":null},"all":[{}]}`: anew,
		`{"step":{"rps":5},"name":1}`:                   usual, // a fault changes nothing
		`{"step":{"rps":5},"tags":{"d":null}}`:          usual,
	} {
		got := usual
		if err := DecodeOverDefaults([]byte(text), &got); !reflect.DeepEqual(got, want) ||
			(err != nil) != (strings.Contains(text, "1}") || strings.Contains(text, `"d":null`)) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestDecodeIgnoringUnknown(t *testing.T) {
	f := func(data, wantErr string, want step) {
		t.Helper()
		var have step
		err := DecodeIgnoringUnknown([]byte(data), &have)
		if fmt.Sprint(err) != wantErr || have != want {
			t.Errorf("%s: have %+v, %v; want %+v, %s", data, have, err, want, wantErr)
		}
	}
	const none = "<nil>"
	f(`{"rps":5,"validFor":60,"reason":{"codes":[1,{}],"codes":2},"x":null}`, none, step{RPS: 5})
	f(`{"validFor":1,"validFor":2}`, none, step{})
	f(`{"RPS":5}`, "RPS: must be written rps", step{})
	f(`{"rps":5,"rps":6}`, "rps: given twice", step{})
	f(`{"rps":"5"}`, "rps: must be a number, is \"5\"", step{})
	f(`{"reason":{]}`, `reason: not valid JSON: line 1, column 12: want a name in quotes, have ']'`, step{})
}

func TestDepth(t *testing.T) {
	f := func(depth int, ok bool) {
		t.Helper()
		data := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		var generic any
		var raw Raw
		for _, err := range []error{Decode([]byte(data), &generic), Decode([]byte(data), &raw)} {
			if (err == nil) != ok {
				t.Errorf("depth %d: %v", depth, err)
			}
			if !ok && !strings.HasSuffix(err.Error(), "nested deeper than 32 levels") {
				t.Errorf("depth %d: %v", depth, err)
			}
		}
	}
	f(1, true)
	f(depthMax, true)
	f(depthMax+1, false)
	f(100_000, false)
}

func TestRawIsWrittenAsRead(t *testing.T) {
	f := func(raw Raw, want string) {
		t.Helper()
		text, err := json.Marshal(map[string]Raw{"params": raw})
		if err != nil || string(text) != want {
			t.Errorf("%q: have %s, %v; want %s", raw, text, err, want)
		}
	}
	f(nil, `{"params":null}`)
	f(Raw(`{"a":[1,2]}`), `{"params":{"a":[1,2]}}`)
}

func TestAt(t *testing.T) {
	f := func(path string, err error, want string) {
		t.Helper()
		if have := fmt.Sprint(WithPath(path, err)); have != want {
			t.Errorf("At(%q, %v) = %s, want %s", path, err, have, want)
		}
	}
	f("a", nil, "<nil>")
	f("profile.params", Fault{Path: "rps", Message: "is odd"}, "profile.params.rps: is odd")
	f("steps", Fault{Path: "[2].rps", Message: "is odd"}, "steps[2].rps: is odd")
	f("a", Fault{Message: "is odd"}, "a: is odd")
	f("", Fault{Path: "b", Message: "is odd"}, "b: is odd")
	f("a", fmt.Errorf("wrapped: %w", Fault{Path: "b", Message: "is odd"}), "a.b: is odd")
	f("a", errors.New("is odd"), "a: is odd")
}

func TestUnsupportedTypesPanic(t *testing.T) {
	f := func(into any) {
		t.Helper()
		defer func() {
			if v := recover(); v == nil || !strings.HasPrefix(fmt.Sprint(v), "bug: strict: ") {
				t.Errorf("%T: recovered %v", into, v)
			}
		}()
		_ = Decode([]byte(`{}`), into)
	}
	f(step{})
	f((*step)(nil))
	f(new(chan int))
	f(new([]byte))
	f(new(map[int]string))
	f(new(error))
	f(new(complex128))
	f(new(struct {
		A int `json:"a,string"`
	}))
	f(reflect.New(reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"a"`},
		{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"a"`},
	})).Interface())
}

// A small text must not become very many nodes.
func TestManyValues(t *testing.T) {
	text := []byte("[" + strings.Repeat("0,", valuesMax) + "0]")
	var list []int8
	if err := Decode(text, &list); fmt.Sprint(err) != "[524287]: more than 524288 values" {
		t.Errorf("have %v", err)
	}
	var r Reader
	if r.File(text, len(text)) || fmt.Sprint(r.Err()) != "line 1: more than 524288 values" {
		t.Errorf("a file: %v", r.Err())
	}
	var last *Node
	members := []byte(`{"a":[` + strings.Repeat("0,", valuesMax/2) + `0],"b":[` + strings.Repeat("0,", valuesMax/2) +
		`0]}`)
	if r := new(Reader); !r.Members(members, len(members), func(_ Name, value *Node) { last = value }) ||
		len(last.Children) != valuesMax/2+1 {
		t.Errorf("members: %v", r.Err())
	}
	empty := []byte("[" + strings.Repeat("{},", 1000) + "{}]")
	n := testing.AllocsPerRun(3, func() { s := scanner{data: empty, line: 1}; _ = s.document(new(Node)) })
	if n > 30 {
		t.Errorf("%g allocations for empty objects", n)
	}
}

// Parsing one message after another into one node reads each as a fresh one would, and
// allocates nothing.
func TestParse(t *testing.T) {
	var n Node
	for _, text := range []string{`{"a":[1,{"b":"c"},null],"d":true}`, `[[],{"x":{}},"y"]`, `"z"`, `{"a":{"b":[2]}}`,
		`3`} {
		var fresh Node
		if err := n.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := fresh.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if have, want := shape(&n), shape(&fresh); have != want {
			t.Errorf("%s: read as %s, alone as %s", text, have, want)
		}
	}
	message := []byte(`{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"b"}]}]}`)
	if allocs := testing.AllocsPerRun(100, func() { _ = n.Parse(message) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if err := n.Parse([]byte("{\"a\":[1,\n}")); err == nil ||
		err.Error() != `a[1]: not valid JSON: line 2, column 1: want a value, have '}'` {
		t.Error(err)
	}
}

// Messages that are large each at another path do not add up.
func TestParseKeepsLittle(t *testing.T) {
	var n Node
	for _, message := range []struct{ filler, large, small string }{{"[],", "[" + strings.Repeat("0,", 500) + "0]",
		"[0]"}, {"{},", `{"a":{"a":[` + strings.Repeat("{},", 500) + `{}]}}`, "[0]"},
		{"0,", `"` + strings.Repeat("x", keptBytesMax) + `"`, "[0]"}} {
		for i := range 100 {
			if err := n.Parse([]byte("[" + strings.Repeat(message.filler, i) + message.large + "]")); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Parse([]byte(message.small)); err != nil {
			t.Fatal(err)
		}
		if kept, bytes := held(&n); kept > 4*keptMax || bytes > 4*keptMax {
			t.Errorf("%.20q: %d places are kept, and %d bytes of words", message.large, kept, bytes)
		}
	}
}

// held is how many places a node has memory for, and how many bytes they refer to.
func held(n *Node) (places, bytes int) {
	places, bytes = cap(n.Names)+cap(n.Children), len(n.Word)
	for _, kid := range n.Children[:cap(n.Children)] {
		p, b := held(&kid)
		places, bytes = places+p, bytes+b
	}
	return places, bytes
}

// shape writes all of a node.
func shape(n *Node) string {
	text := fmt.Sprintf("%d:%d %v %q", n.Line, n.start, n.Kind, n.Word)
	for i := range n.Children {
		if n.Kind == Object {
			text += fmt.Sprintf(" %q", n.Names[i].Word)
		}
		text += " (" + shape(&n.Children[i]) + ")"
	}
	return text
}
