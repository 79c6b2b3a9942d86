package strict

import (
	"bytes"
	"math"
	"strconv"
)

// digitsMax is how many significant digits a number is written with: as many as any
// decimal number keeps on its way through a float64. The last two that a float64 may
// need tell how it was computed, as in 2.9893330000000002.
const digitsMax = 15

// noTime is how Go writes a time that is not set.
const noTime = `"0001-01-01T00:00:00Z"`

// Plain writes JSON text for its readers: numbers with a fraction have at most 15
// significant digits, and a time that is not set is null. The text must be valid; it
// is not changed.
func Plain(text []byte) []byte {
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		n := 1
		switch c := text[i]; {
		case c == '"':
			n = stringEnd(text[i:])
			if string(text[i:i+n]) == noTime && !isKey(text[i+n:]) {
				plain = append(plain, "null"...)
			} else {
				plain = append(plain, text[i:i+n]...)
			}
		case c == '-' || '0' <= c && c <= '9':
			for i+n < len(text) && bytes.IndexByte([]byte("+-.eE0123456789"), text[i+n]) >= 0 {
				n++
			}
			plain = appendPlain(plain, text[i:i+n])
		default:
			plain = append(plain, c)
		}
		i += n
	}
	return plain
}

// PlainFloat is f with at most 15 significant digits.
func PlainFloat(f float64) float64 {
	plain, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', digitsMax, 64), 64)
	if err != nil { // beyond the largest number, by rounding up
		return f
	}
	return plain
}

// stringEnd is the length of the string that text begins with.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// isKey reports whether a string is a member's name, by what follows.
func isKey(rest []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":")) }

// appendPlain appends a number.
func appendPlain(plain, number []byte) []byte {
	if len(number) <= digitsMax || bytes.IndexByte(number, '.') < 0 {
		return append(plain, number...)
	}
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		return append(plain, number...)
	}
	return AppendFloat(plain, PlainFloat(f))
}

// AppendFloat appends a number as JSON is usually written: with an exponent only where it is
// very small or large.
func AppendFloat(dst []byte, f float64) []byte {
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}
