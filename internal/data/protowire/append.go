package protowire

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"
)

// The functions here append a field whose number is below 16. Those that do not append default values are for fields
// that are not part of a oneof.

// AppendNumber appends a number, unless it is 0.
func AppendNumber(dst []byte, field int, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return AppendVarint(dst, field, n)
}

// AppendVarint appends a number, also 0.
func AppendVarint(dst []byte, field int, n uint64) []byte {
	return binary.AppendUvarint(append(dst, byte(field<<3|Varint)), n)
}

// AppendDouble appends a double, also 0.
func AppendDouble(dst []byte, field int, x float64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, byte(field<<3|Fixed64)), math.Float64bits(x))
}

// AppendText appends a string, unless it is empty. Invalid UTF-8 becomes U+FFFD.
func AppendText[T string | []byte](dst []byte, field int, text T) []byte {
	if len(text) == 0 {
		return dst
	}
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return AppendBytes(dst, field, bytes.ToValidUTF8([]byte(text), []byte("\uFFFD")))
		}
	}
	return AppendBytes(dst, field, text)
}

// AppendBytes appends bytes, also none.
func AppendBytes[T string | []byte](dst []byte, field int, value T) []byte {
	return append(binary.AppendUvarint(append(dst, byte(field<<3|Bytes)), uint64(len(value))), value...)
}

// AppendMessage appends a message within another one, whose content add appends.
func AppendMessage[T any](dst []byte, field int, v T, add func([]byte, T) []byte) []byte {
	at := len(dst) + 2 // if the length has one byte
	dst = add(append(dst, byte(field<<3|Bytes), 0), v)
	n := len(dst) - at
	if n < 0x80 {
		dst[at-1] = byte(n)
		return dst
	}
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], uint64(n))
	return slices.Replace(dst, at-1, at, length[:k]...)
}
