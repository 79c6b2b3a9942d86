// Package protowire reads and appends messages in the binary form of Protocol Buffers, version 3, without
// reflection.
//
// A caller loops over the fields of a message and takes those that it knows:
//
//	m := protowire.Read(b)
//	for m.Next() {
//		switch m.Tag {
//		case 1<<3 | protowire.Bytes:
//			name = m.Text("name")
//		}
//	}
//	return m.Err()
//
// What is read borrows from the bytes, and nothing is allocated unless there is a fault.
package protowire

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"weir/internal/data/strict"
)

// The types of fields. Groups, which version 3 does not have, are skipped.
const (
	Varint   = 0
	Fixed64  = 1
	Bytes    = 2
	begins   = 3 // a group
	ends     = 4
	Fixed32  = 5
	depthMax = 32 // of groups
)

// A Message is a message that is being read, with the field that was read last.
type Message struct {
	Tag    uint64 // the number and the type of the field: number<<3 | type
	Number uint64 // the value of a Varint or a Fixed64
	Bytes  []byte // that of Bytes: bytes, a string or a message; borrowed

	depth int // of groups
	read  int // bytes before rest
	rest  []byte
	err   error // the first fault
}

// Read returns the message in b, of which nothing has been read yet.
func Read(b []byte) Message { return Message{rest: b} }

// Err returns the first fault, a [strict.Fault], or nil.
func (m *Message) Err() error { return m.err }

// Next reads the next field, and reports whether there is one. Of a field that is given twice the last value counts,
// and fields that the caller does not know, or that have another type, are skipped.
func (m *Message) Next() bool {
	if m.err != nil || len(m.rest) == 0 {
		return false
	}
	const numberMax = 1<<29 - 1
	if m.Tag = m.varint("the tag of a field"); m.err == nil && (m.Tag < 1<<3 || m.Tag>>3 > numberMax) {
		m.fail("the number of a field")
	}
	switch {
	case m.err != nil:
	case m.Tag&7 == Varint:
		m.Number = m.varint("a number")
	case m.Tag&7 == Fixed64:
		if b := m.take(8); m.err == nil {
			m.Number = binary.LittleEndian.Uint64(b)
		}
	case m.Tag&7 == Fixed32:
		m.take(4)
	case m.Tag&7 == Bytes:
		if n := m.varint("a length"); m.err == nil {
			m.Bytes = m.take(n)
		}
	case m.Tag&7 == begins && m.depth < depthMax:
		m.skip(m.Tag)
	case m.Tag&7 == ends && m.depth > 0: // skip looks at it
	default:
		m.fail("the type of a field")
	}
	return m.err == nil
}

// skip skips a group, which a field of its number ends.
func (m *Message) skip(tag uint64) {
	for m.depth++; m.Next() && m.Tag&7 != ends; {
	}
	if m.depth--; m.err == nil && m.Tag != tag-begins+ends {
		m.fail("a group")
	}
	m.Tag = tag
}

func (m *Message) varint(what string) uint64 {
	value, n := binary.Uvarint(m.rest)
	if n <= 0 {
		m.fail(what)
		return 0
	}
	m.take(uint64(n))
	return value
}

// take returns the next n bytes.
func (m *Message) take(n uint64) []byte {
	if n > uint64(len(m.rest)) {
		m.fail("a value that ends before its length")
		return nil
	}
	b := m.rest[:n:n]
	m.rest, m.read = m.rest[n:], m.read+int(n)
	return b
}

// fail sets the error that the message is malformed.
func (m *Message) fail(what string) {
	m.err = strict.Fault{Message: fmt.Sprintf("must be a protobuf message; %s at byte %d is malformed", what, m.read)}
}

// Text returns the value of a string with that name, which must be UTF-8.
func (m *Message) Text(name string) []byte {
	if !utf8.Valid(m.Bytes) {
		m.err = strict.Fault{Path: name, Message: "must be UTF-8"}
	}
	return m.Bytes
}

// Within sets the error of a message within this one, unless it is nil.
func (m *Message) Within(path string, err error) {
	if err != nil {
		m.err = strict.WithPath(path, err)
	}
}

// Element sets the error of a message in a list within this one, unless it is nil.
func (m *Message) Element(list string, i int, err error) {
	if err != nil {
		m.Within(strict.ElementPath(list, i), err)
	}
}
