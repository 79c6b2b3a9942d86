package xds

import (
	"math"

	"weir/internal/data/protowire"
)

// readStruct reads a google.protobuf.Struct.
func readStruct(b []byte, depth int) (map[string]any, error) {
	s := make(map[string]any)
	m := protowire.Read(b)
	for m.Next() {
		if m.Tag != 1<<3|protowire.Bytes {
			continue
		}
		name, value, err := readField(m.Bytes, depth)
		m.Within(name, err)
		s[name] = value
	}
	return s, m.Err()
}

// readField reads an entry of the map in a Struct.
func readField(b []byte, depth int) (name string, value any, err error) {
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Bytes:
			name = string(m.Text("key"))
		case 2<<3 | protowire.Bytes:
			value, err = readValue(m.Bytes, depth)
			m.Within("", err)
		}
	}
	return name, value, m.Err()
}

// readValue reads a google.protobuf.Value.
func readValue(b []byte, depth int) (value any, err error) {
	if depth > depthMax {
		return nil, errDeep
	}
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Varint:
			value = nil
		case 2<<3 | protowire.Fixed64:
			value = math.Float64frombits(m.Number)
		case 3<<3 | protowire.Bytes:
			value = string(m.Text("string_value"))
		case 4<<3 | protowire.Varint:
			value = m.Number != 0
		case 5<<3 | protowire.Bytes:
			value, err = readStruct(m.Bytes, depth+1)
			m.Within("", err)
		case 6<<3 | protowire.Bytes:
			value, err = readList(m.Bytes, depth+1)
			m.Within("", err)
		}
	}
	return value, m.Err()
}

func readList(b []byte, depth int) ([]any, error) {
	list := []any{}
	m := protowire.Read(b)
	for m.Next() {
		if m.Tag == 1<<3|protowire.Bytes {
			value, err := readValue(m.Bytes, depth)
			m.Element("", len(list), err)
			list = append(list, value)
		}
	}
	return list, m.Err()
}
