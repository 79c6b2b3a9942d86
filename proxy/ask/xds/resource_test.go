package xds

import (
	"bytes"
	"strings"
	"testing"

	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/internal/data/protowire"
	"weir/internal/test/testkit"
	"weir/proxy/rules/descriptor"
	"weir/proxy/rules/rls"
)

// full is a configuration that has all fields.
func full(t testing.TB) *config.RateLimitConfig {
	details := testkit.Must(structpb.NewStruct(map[string]any{"a": 1.5, "b": []any{true, nil, "x"},
		"c": map[string]any{}}))(t)
	made := &config.RateLimitConfig{Name: "shop.yaml", Domain: "shop", Descriptors: []*config.RateLimitDescriptor{
		{Key: "plan", Value: "gold*", ShadowMode: true, DetailedMetric: true,
			RateLimit: &config.RateLimitPolicy{Unit: config.RateLimitUnit_WEEK, RequestsPerUnit: 4294967295, Name: "n",
				Replaces: []*config.RateLimitReplace{{Name: "m"}, {Name: "o"}}},
			Descriptors: []*config.RateLimitDescriptor{{Key: "user"}}},
		{Key: "free", RateLimit: &config.RateLimitPolicy{Unlimited: true}},
		{Key: "none", RateLimit: &config.RateLimitPolicy{Unit: config.RateLimitUnit_YEAR}},
	}}
	addLater(t, made.Descriptors[0], true, details)
	return made
}

// addLater adds the fields that go-control-plane's types do not have yet: quota_mode and metadata.
func addLater(t testing.TB, d *config.RateLimitDescriptor, quota bool, details *structpb.Struct) {
	var fields []byte
	if quota {
		fields = protowire.AppendNumber(nil, 7, 1)
	}
	fields = protowire.AppendBytes(fields, 8, testkit.Must(proto.Marshal(details))(t))
	d.ProtoReflect().SetUnknown(fields)
}

// A resource becomes a file, which package descriptor accepts.
func TestReadResource(t *testing.T) {
	file, err := readResource(testkit.Must(proto.Marshal(full(t)))(t))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"domain":"shop","descriptors":[{"key":"plan","value":"gold*","rate_limit":{"unit":"WEEK",` +
		`"requests_per_unit":4294967295,"name":"n","replaces":[{"name":"m"},{"name":"o"}]},"descriptors":[{"key":"user"}],` +
		`"shadow_mode":true,"detailed_metric":true,"quota_mode":true,"metadata":{"a":1.5,"b":[true,null,"x"],"c":{}}},` +
		`{"key":"free","rate_limit":{"unlimited":true}},{"key":"none","rate_limit":{"unit":"YEAR","requests_per_unit":0}}]}`
	if file.Name != "shop.yaml" || string(file.Text) != want {
		t.Errorf("%s: %s, want %s", file.Name, file.Text, want)
	}
	made, err := descriptor.Read([]descriptor.File{file}, false)
	if err != nil {
		t.Fatal(err)
	}
	if domains, limits := made.Len(); domains != 1 || limits != 3 {
		t.Errorf("%d domains, %d limits", domains, limits)
	}
	for value, unit := range config.RateLimitUnit_name {
		if have := rls.Unit(value).String(); have != unit {
			t.Errorf("unit %d is %s, want %s", value, have, unit)
		}
	}
}

// Resources that are malformed or nested too deeply are refused.
func TestReadResourceRefuses(t *testing.T) {
	nested := func(depth int) *config.RateLimitConfig {
		d := &config.RateLimitDescriptor{Key: "k"}
		for range depth - 1 {
			d = &config.RateLimitDescriptor{Key: "k", Descriptors: []*config.RateLimitDescriptor{d}}
		}
		return &config.RateLimitConfig{Name: "n", Descriptors: []*config.RateLimitDescriptor{d}}
	}
	list := func(depth int) *config.RateLimitConfig {
		v := structpb.NewStringValue("x")
		for range depth {
			v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
		}
		d := &config.RateLimitDescriptor{Key: "k"}
		addLater(t, d, false, &structpb.Struct{Fields: map[string]*structpb.Value{"m": v}})
		return &config.RateLimitConfig{Name: "n", Descriptors: []*config.RateLimitDescriptor{d}}
	}
	for _, test := range []struct {
		bytes []byte
		fault string
	}{
		{testkit.Must(proto.Marshal(nested(depthMax)))(t), ""},
		{testkit.Must(proto.Marshal(nested(depthMax + 1)))(t), "must be nested at most 64 deep"},
		{testkit.Must(proto.Marshal(list(depthMax - 2)))(t), ""},
		{testkit.Must(proto.Marshal(list(depthMax - 1)))(t), "must be nested at most 64 deep"},
		{[]byte{0x12, 1, 0xff}, `resource "": domain: must be UTF-8`},
		{[]byte{0x0a, 1, 'n', 0x1a, 2, 0x1a, 9}, `resource "n": descriptors[0]: must be a protobuf message`},
	} {
		if _, err := readResource(test.bytes); test.fault == "" && err != nil ||
			test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%.20x: error %v, want %s", test.bytes, err, test.fault)
		}
	}
}

// Any bytes are read or refused; what go-control-plane's types accept is read as they do.
func FuzzReadResource(f *testing.F) {
	f.Add(testkit.Must(proto.Marshal(full(f)))(f))
	f.Add([]byte{0x1a, 2, 0x1a, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := readResource(b)
		var theirs config.RateLimitConfig
		if proto.Unmarshal(b, &theirs) != nil || err != nil {
			return
		}
		if file.Name != theirs.Name {
			t.Errorf("name %q, want %q", file.Name, theirs.Name)
		}
		again, err := readResource(testkit.Must(proto.Marshal(&theirs))(t))
		if err != nil || !bytes.Equal(again.Text, file.Text) {
			t.Errorf("%s is, as they write it, %s, %v", file.Text, again.Text, err)
		}
	})
}
