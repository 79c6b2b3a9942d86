package rls

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/test/testkit"
)

// written returns a request that has all fields, as Envoy writes it.
func written(t testing.TB) []byte {
	entry := func(key, value string) *common.RateLimitDescriptor_Entry {
		return &common.RateLimitDescriptor_Entry{Key: key, Value: value}
	}
	return testkit.Must(proto.Marshal(&service.RateLimitRequest{Domain: "d", HitsAddend: 7,
		Descriptors: []*common.RateLimitDescriptor{
			{Entries: []*common.RateLimitDescriptor_Entry{entry("a", "é"), entry("b", "")}, IsNegativeHits: true,
				Limit: &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: math.MaxUint32, Unit: 4}},
			{HitsAddend: wrapperspb.UInt64(math.MaxUint64)}, {HitsAddend: wrapperspb.UInt64(0)}}}))(t)
}

// A request of go-control-plane's types is the same in the values of this package.
func TestReadProto(t *testing.T) {
	var r Request
	if err := r.ReadProto(written(t)); err != nil {
		t.Fatal(err)
	}
	want := `"d" hits=7 [a=é b=] limit=4294967295/DAY negative [] hits=18446744073709551615 [] hits=0`
	if got := r.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestReadProtoFaults(t *testing.T) {
	for _, test := range []struct{ message, want string }{
		{"\x0a", `must be a protobuf message; a length at byte 1 is malformed`},
		{"\x0a\x02a", `must be a protobuf message; a value that ends before its length at byte 2 is malformed`},
		{"\x0a\x01a\x80", `must be a protobuf message; the tag of a field at byte 3 is malformed`},
		{"\x02\x00", `must be a protobuf message; the number of a field at byte 1 is malformed`},
		{"\x36", `must be a protobuf message; the type of a field at byte 1 is malformed`},
		{"\x34", `must be a protobuf message; the type of a field at byte 1 is malformed`},
		{"\x33", `must be a protobuf message; a group at byte 1 is malformed`},
		{"\x33\x0a\x00\x3c", `must be a protobuf message; a group at byte 4 is malformed`},
		{strings.Repeat("\x33", 33), `must be a protobuf message; the type of a field at byte 33 is malformed`},
		{"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", `must be a protobuf message; a number at byte 1 is malformed`},
		{"\x0a\x01\xff", `domain: must be UTF-8`},
		{"\x12\x00\x12\x05\x0a\x03\x12\x01\xff", `descriptors[1].entries[0].value: must be UTF-8`},
		{"\x12\x02\x12\x05", `descriptors[0]: must be a protobuf message; a value that ends before its length at byte 2 ` +
			`is malformed`},
		{"\x12\x03\x1a\x01\x08", `descriptors[0].hitsAddend: must be a protobuf message; a number at byte 1 is malformed`},
	} {
		if err := new(Request).ReadProto([]byte(test.message)); err == nil || err.Error() != test.want {
			t.Errorf("%q: %v, want %s", test.message, err, test.want)
		}
	}
}

// The numbers of descriptors and entries are bounded in both forms of a request.
func TestBounds(t *testing.T) {
	for _, test := range []struct {
		entries []int // of each descriptor
		want    string
	}{
		{make([]int, DescriptorsMax), ""},
		{make([]int, DescriptorsMax+1), "descriptors: must be at most 256"},
		{[]int{entriesMax}, ""},
		{[]int{1, entriesMax - 1, 0}, ""},
		{[]int{entriesMax + 1}, "descriptors[0].entries: must be at most 1024 in all descriptors"},
		{[]int{0, 1, entriesMax}, "descriptors[2].entries: must be at most 1024 in all descriptors"},
	} {
		var all service.RateLimitRequest
		for _, n := range test.entries {
			d := new(common.RateLimitDescriptor)
			for range n {
				d.Entries = append(d.Entries, new(common.RateLimitDescriptor_Entry))
			}
			all.Descriptors = append(all.Descriptors, d)
		}
		var r Request
		_, asJSON := parse(string(testkit.Must(protojson.Marshal(&all))(t)))
		for _, err := range []error{r.ReadProto(testkit.Must(proto.Marshal(&all))(t)), asJSON} {
			if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
				t.Errorf("%d: %v, want %s", test.entries[:min(3, len(test.entries))], err, test.want)
			}
		}
	}
}

// theirs reads a message with go-control-plane's types.
func theirs(message []byte) (*Request, error) {
	var m service.RateLimitRequest
	if err := proto.Unmarshal(message, &m); err != nil {
		return nil, err
	}
	r := &Request{Domain: []byte(m.Domain), HitsAddend: m.HitsAddend}
	for _, d := range m.Descriptors {
		one := Descriptor{Negative: d.IsNegativeHits}
		for _, e := range d.Entries {
			one.Entries = append(one.Entries, Entry{[]byte(e.Key), []byte(e.Value)})
		}
		if l := d.Limit; l != nil {
			one.Override = Override{true, l.RequestsPerUnit, Unit(l.Unit)}
		}
		if h := d.HitsAddend; h != nil {
			one.Hits = Hits{true, h.Value}
		}
		r.Descriptors = append(r.Descriptors, one)
	}
	return r, nil
}

// What is read is what go-control-plane's types read, also if the memory of another request is used again. Groups
// may be nested more deeply with them.
func FuzzReadProto(f *testing.F) {
	f.Add(written(f))
	for _, seed := range []string{"", "\x0a\x01a\x0a\x01b", "\x0d1234\x09123456781", "\x12\x06\x12\x00\x12\x02\x08\x07",
		"\x12\x08\x1a\x02\x08\x07\x1a\x02\x10\x01", "\x08\x05\x1a\x01x", "\x0b\x13\x0d1234\x14\x12\x02ab\x0c\x0a\x01a",
		"\x12\x02\x33\x34", "\x33\x3c", "\x9a\x06\x01x", "\x18\xff\xff\xff\xff\x1f"} {
		f.Add([]byte(seed))
	}
	var r Request
	f.Fuzz(func(t *testing.T, message []byte) {
		want, wrong := theirs(message)
		err := r.ReadProto(message)
		if err != nil && strings.Contains(err.Error(), "must be at most") {
			return
		}
		if wrong == nil && err != nil && strings.Contains(err.Error(), "the type of a field at byte ") {
			return
		}
		if (err != nil) != (wrong != nil) {
			t.Fatalf("%v, and with go-control-plane %v", err, wrong)
		}
		if err == nil && r.String() != want.String() {
			t.Fatalf("%s, and with go-control-plane %s", r.String(), want.String())
		}
	})
}

// answers are responses in which every field is absent, zero and large.
func answers() []*Response {
	long := strings.Repeat("long ", 100)
	return []*Response{{}, {OverallCode: OK}, {OverallCode: OverLimit,
		Statuses: []Status{
			{Code: OverLimit, Limit: Limit{Given: true, Name: `a"b` + long, RequestsPerUnit: math.MaxUint32, Unit: Week},
				UntilReset: 3 * time.Second},
			{Code: OK, Limit: Limit{Given: true}, Remaining: math.MaxUint32}, {}},
		Headers:  []Header{{[]byte("RateLimit-Limit"), []byte(long)}, {[]byte("Empty"), nil}},
		RawBody:  bytes.Repeat([]byte{0, 255}, 10_000),
		Metadata: Struct{"b": Struct{"\n": "é", "": long}, "a": []any{nil, true, false, 1.5, 0.0, "", []any{}, Struct{}}}},
		{Metadata: Struct{}}}
}

// A response that go-control-plane's types read is the one that is written as JSON.
func TestAppendProto(t *testing.T) {
	for _, r := range answers() {
		var m, fromJSON service.RateLimitResponse
		if err := proto.Unmarshal(AppendProto(nil, r), &m); err != nil {
			t.Errorf("%.200s: %v", AppendResponse(nil, r), err)
		} else if err = protojson.Unmarshal(AppendResponse(nil, r), &fromJSON); err != nil || !proto.Equal(&m, &fromJSON) {
			t.Errorf("%v\n%.500v\n%.500v", err, &m, &fromJSON)
		}
	}
}

// Random texts in a response are those that go-control-plane's types read.
func FuzzAppendProto(f *testing.F) {
	f.Add("name", []byte("body"), uint32(7), 1.5)
	f.Add("\xff", bytes.Repeat([]byte{1}, 200), uint32(math.MaxUint32), math.Inf(1))
	f.Fuzz(func(t *testing.T, text string, body []byte, n uint32, x float64) {
		r := &Response{OverallCode: Code(n % 3), RawBody: body, Headers: []Header{{[]byte(text), body}},
			Statuses: []Status{{Code: Code(n % 2), Limit: Limit{true, text, n, Unit(n % 8)}, Remaining: n,
				UntilReset: time.Duration(n) * time.Second}},
			Metadata: Struct{text: []any{x, text, Struct{text: nil}}}}
		var m service.RateLimitResponse
		if err := proto.Unmarshal(AppendProto(nil, r), &m); err != nil {
			t.Fatal(err)
		}
		clean := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
		s, list := m.Statuses[0], m.DynamicMetadata.Fields[clean(text)].GetListValue().GetValues()
		if m.OverallCode != service.RateLimitResponse_Code(n%3) || !slices.Equal(m.RawBody, body) ||
			s.LimitRemaining != n || s.CurrentLimit.RequestsPerUnit != n || s.CurrentLimit.Name != clean(text) ||
			int32(s.CurrentLimit.Unit) != int32(n%8) || s.DurationUntilReset.GetSeconds() != int64(n) ||
			m.ResponseHeadersToAdd[0].Value != clean(string(body)) ||
			math.Float64bits(list[0].GetNumberValue()) != math.Float64bits(x) || list[1].GetStringValue() != clean(text) {
			t.Errorf("%v", &m)
		}
	})
}

// Reading and writing use their memory again, also in protobuf's binary form.
func TestProtoAllocatesNothing(t *testing.T) {
	message, answer := written(t), answers()[2]
	answer.Metadata = nil
	var r Request
	var out []byte
	if allocs := testing.AllocsPerRun(100, func() {
		if err := r.ReadProto(message); err != nil {
			t.Fatal(err)
		}
		out = AppendProto(out[:0], answer)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// oneAsk is a request with one descriptor of one entry, in both forms.
func oneAsk(b *testing.B) (text, message []byte) {
	m := &service.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.7"}}}}}
	return testkit.Must(protojson.Marshal(m))(b), testkit.Must(proto.Marshal(m))(b)
}

func BenchmarkReadProto(b *testing.B) {
	_, message := oneAsk(b)
	var r Request
	b.ReportAllocs()
	for b.Loop() {
		if r.ReadProto(message) != nil {
			b.Fatal("refused")
		}
	}
}
