package http1

import (
	"encoding/binary"
	"math/bits"
)

// The scanning functions process eight bytes at a time.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
	lows  = 0x7f * ones
)

// controlAt returns the index of the first control character in b other than a horizontal tab, or
// len(b).
func controlAt(b []byte) int {
	i := nextControl(b)
	for i < len(b) && b[i] == '\t' {
		i++
		i += nextControl(b[i:])
	}
	return i
}

// nextControl returns the index of the first control character in b, or len(b).
func nextControl(b []byte) int {
	i := 0
	for ; i <= len(b)-8; i += 8 {
		if found := controls(binary.LittleEndian.Uint64(b[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == 0x7f {
			break
		}
	}
	return i
}

// controls sets the highest bit of each byte of x that is a control character: one of ASCII whose
// successor, modulo 0x80, is at most 0x20.
func controls(x uint64) uint64 {
	next := (x&lows + ones) & lows
	return ^(next + (0x7f-0x20)*ones | x) & highs
}

// scanLine returns the length of the line at the beginning of b, with its CRLF, or 0 if it is not
// complete. It starts at from: the bytes before contain neither a fault nor the end. A fault that
// no further byte can correct is returned at once; beyond is the fault of a line longer than
// limit.
func scanLine(b []byte, from, limit int, beyond fault) (n int, f fault) {
	w := b[:min(len(b), limit)]
	// The byte before from may be a CR that must be followed by LF.
	i := max(from-1, 0)
	if i += controlAt(w[i:]); i < len(w) {
		if w[i] != '\r' {
			return 0, controlFault(w[i])
		}
		if i+1 < len(w) {
			if w[i+1] != '\n' {
				return 0, faultBareCR
			}
			return i + 2, noFault
		}
	}
	if len(b) > limit {
		return 0, beyond
	}
	return 0, noFault
}

// controlFault returns the fault of a control character other than CR.
func controlFault(c byte) fault {
	if c == '\n' {
		return faultBareLF
	}
	return faultControl
}

// Classes of bytes in field names and methods.
const (
	classWord  = 0    // letter, digit or '-'
	classToken = 1    // another token character (RFC 9110 5.6.2)
	classEnd   = 0x80 // anything else
)

// tokenClass is the class of each byte.
var tokenClass = classes()

func classes() (t [256]uint8) {
	for c := range t {
		t[c] = classEnd
	}
	for _, c := range []byte("!#$%&'*+.^_`|~") {
		t[c] = classToken
	}
	t['-'] = classWord
	for c := '0'; c <= '9'; c++ {
		t[c] = classWord
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = classWord, classWord
	}
	return t
}

// IsToken reports whether word is a token (RFC 9110 5.6.2).
func IsToken(word string) bool {
	for i := range len(word) {
		if tokenClass[word[i]] == classEnd {
			return false
		}
	}
	return word != ""
}

// foldEqual reports whether b equals lower, ignoring the case of letters. lower consists of
// lower-case letters, digits and '-'; b has only token characters, so that setting bit 5 changes
// only letters.
func foldEqual(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	if string(b) == lower {
		return true
	}
	for i, c := range b {
		if c|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// EqualFold reports whether a and b are equal except for the case of ASCII letters.
func EqualFold[T ~string | ~[]byte](a []byte, b T) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if c != b[i] && lowerASCII(c) != lowerASCII(b[i]) {
			return false
		}
	}
	return true
}

func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// IsHex reports whether c is a hexadecimal digit.
func IsHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// HexValue returns the value of a hexadecimal digit.
func HexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
