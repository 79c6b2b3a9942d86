// Package strict parses JSON and YAML written by people and other programs, and refuses
// everything unexpected, reporting the position and what is allowed there.
//
// A misspelt setting must not silently become a default: an operator who writes "limits"
// for "limit" would believe that the limit is in force. Therefore unknown names, names in
// the wrong case, names given twice, values of the wrong type, numbers that do not fit,
// text after the value, invalid UTF-8, nesting beyond 32 levels and more than 524,288
// values are faults, each with the path of the field, such as
//
//	steps[2].rps: must be a number, is "5"
//
// Text becomes a tree of [Node]s, and the tree becomes Go values by their types. [Decode]
// does both for JSON from the network and returns the first [Fault]. A [Reader] does it
// for files, in JSON or YAML, and collects all faults with their lines, including those
// that its caller finds when it validates the values. What Decode accepts is accepted by
// encoding/json with DisallowUnknownFields too, and means the same.
//
// These types are supported: bool, string, integers, floats, structs with their embedded structs,
// slices, maps with string keys, pointers, any, [Raw], [Scalar], *Node, and types that implement
// encoding.TextUnmarshaler. Other types are a mistake of the program and panic. null stands for
// the absence of a slice, map, pointer, any or Raw, and is a fault elsewhere.
//
// The JSON scanner is our own, because decoders such as goccy/go-json accept names in the wrong
// case and names given twice, and report no path. docs/design/009-readers-of-json-and-yaml.md has
// the other reasons.
package strict
