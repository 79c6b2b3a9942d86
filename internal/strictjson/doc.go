// Package strictjson decodes JSON that people and other programs write for us,
// and refuses what it does not understand, naming the place.
//
// A setting that is misspelt must not quietly become a default: an operator who
// writes "limits" for "limit" believes to be protected and is not. Therefore
// unknown names, names in the wrong case, names given twice, values of the
// wrong type, numbers that do not fit, text after the value, invalid UTF-8 and
// nesting beyond 32 levels are errors, each with the path of the field, such as
//
//	steps[2].rps: must be a number, is a string
//
// A strict walk along the bytes and the Go type together finds all of these
// first; only then github.com/goccy/go-json decodes the values, into a fresh
// value, so that a fault leaves the caller's untouched. What is accepted is
// accepted by encoding/json with DisallowUnknownFields too, and means the same.
//
// Supported are bool, string, integers, floats, structs, slices, maps with
// string keys, pointers, any, Raw, and types that implement
// encoding.TextUnmarshaler or json.Unmarshaler. Other types, and embedded
// fields, are a mistake of the program and panic. null stands for the absence
// of a slice, map, pointer, any or Raw, and is an error elsewhere.
package strictjson
