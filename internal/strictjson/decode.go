package strictjson

import (
	"fmt"
	"reflect"

	"github.com/goccy/go-json"
)

// Decode decodes data, one JSON value and nothing else, into what into points
// to. Every error is an *Error, and then *into is as it was before.
//
// The value is decoded afresh: nothing that *into held before remains.
// Defaults are set after decoding, or by pointers that stayed nil.
func Decode(data []byte, into any) error {
	return decode(data, into, false)
}

// DecodeIgnoringUnknown is Decode for documents of others that may say more
// than we understand: names that are not known at all are passed over, with
// what they hold. A known name in the wrong case is still an error, as it is
// surely meant to be that name.
func DecodeIgnoringUnknown(data []byte, into any) error {
	return decode(data, into, true)
}

func decode(data []byte, into any, ignoreUnknown bool) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		panic(fmt.Sprintf("bug: strictjson: decode into %T, want a pointer", into))
	}
	w := walk{scanner: scanner{data: data}, ignoreUnknown: ignoreUnknown}
	if err := w.document(target.Type().Elem()); err != nil {
		return err
	}
	fresh := reflect.New(target.Type().Elem())
	if err := json.Unmarshal(data, fresh.Interface()); err != nil {
		return &Error{Message: err.Error()}
	}
	target.Elem().Set(fresh.Elem())
	return nil
}
