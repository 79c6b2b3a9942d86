package strict

import (
	"bytes"
	"math"
	"strconv"
)

// digitsMax is the number of significant digits of a written number: as many as a float64 preserves
// of any decimal number. More digits would show rounding errors, as in 2.9893330000000002.
const digitsMax = 15

// noTime is the JSON of the zero time.
const noTime = `"0001-01-01T00:00:00Z"`

// NormalizeJSON returns JSON text in which numbers with a fraction have at most 15 significant digits, and
// a zero time is null. The text must be valid; it is not changed.
func NormalizeJSON(text []byte) []byte {
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

// RoundTo15Digits returns f with at most 15 significant digits.
func RoundTo15Digits(f float64) float64 {
	plain, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', digitsMax, 64), 64)
	if err != nil { // rounded up beyond the largest number
		return f
	}
	return plain
}

// stringEnd returns the length of the string at the beginning of text.
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

// isKey reports whether a string is a member's name; rest is the text after it.
func isKey(rest []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":")) }

func appendPlain(plain, number []byte) []byte {
	if len(number) <= digitsMax || bytes.IndexByte(number, '.') < 0 {
		return append(plain, number...)
	}
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		return append(plain, number...)
	}
	return AppendFloat(plain, RoundTo15Digits(f))
}

// AppendFloat appends a number, with an exponent only if it is very small or large.
func AppendFloat(dst []byte, f float64) []byte {
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}
