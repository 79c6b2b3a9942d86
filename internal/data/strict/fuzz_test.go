package strict

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzDecode compares with the standard library: what is accepted here it
// accepts too, and reads the same values. A refusal names nothing outside of
// the document and leaves the value alone.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"limit":1,"window":0.5,"algorithm":"fixed"}`, `{"steps":[{"rps":1e3}],"headers":{"a":"b"}}`,
		`{"name":"\ud83d\ude00\u006e"}`, `{"\u006eame":"x"}`, `{"nested":{"nested":{"small":-0}}}`,
		`{"extra":{"a":[1,2.5e-3,"x",null,true]},"params":[{}]}`, `{"tier":"gold"}`,
		`{"at":"2026-01-19T16:30:00.5+01:00"}`, `{"burst":null,"clients":{"ä":{"rps":0}}}`, `{"Limit":1}`,
		`{"single":1e38,"port":65535,"small":-128}`, `{"limit":1,"limit":2}`, "{\"name\":\"\xff\"}", `{"limit":12}x`,
		`{"name":"\u2028<>&\b\f","Untagged":1}`, `[[[[]]]]`, `{"ſhadow":true}`, `{"params": 1.0 }`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		given := bytes.Clone(data)
		compare[document](t, data, Decode, true)
		compare[document](t, data, DecodeIgnoringUnknown, false)
		compare[any](t, data, Decode, true)
		compare[Raw](t, data, Decode, true)
		if !bytes.Equal(data, given) {
			t.Fatalf("the data was changed: %q, was %q", data, given)
		}
	})
}

// compare decodes data into a T with ours and with the standard library.
func compare[T any](t *testing.T, data []byte, ours func([]byte, any) error, disallowUnknown bool) {
	var have, want, untouched T
	if err := ours(data, &have); err != nil {
		if !reflect.DeepEqual(have, untouched) {
			t.Fatalf("%q: %v, but the value is %+v", data, err, have)
		}
		return
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if disallowUnknown {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&want); err != nil {
		t.Fatalf("%q: accepted, but the standard library says: %v", data, err)
	}
	if d.More() || !json.Valid(data) {
		t.Fatalf("%q: accepted, but there is more after the value", data)
	}
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("%q:\nhave %+v\nwant %+v", data, have, want)
	}
}
