package keys

import (
	"bytes"

	"weir/internal/http1"
)

// Decoded returns a part of a query decoded as application/x-www-form-urlencoded:
// escapes, and + for a space. Invalid escapes stay unchanged. If the text changes, the
// result is appended to memory.
func Decoded(memory, text []byte) (out, decoded []byte) {
	plain := bytes.IndexAny(text, "%+")
	if plain < 0 {
		return memory, text
	}
	start := len(memory)
	memory = append(memory, text[:plain]...)
	for i := plain; i < len(text); {
		c, n := decodedByte(text[i:])
		memory = append(memory, c)
		i += n
	}
	return memory, memory[start:]
}

// decodedByte returns the first byte of text, decoded, and how many bytes of text it
// takes.
func decodedByte(text []byte) (c byte, n int) {
	switch c = text[0]; {
	case c == '+':
		return ' ', 1
	case c == '%' && len(text) > 2 && http1.IsHex(text[1]) && http1.IsHex(text[2]):
		return http1.HexValue(text[1])<<4 | http1.HexValue(text[2]), 3
	}
	return c, 1
}

// decodesTo reports whether text, decoded, is name.
func decodesTo(text []byte, name string) bool {
	for ; len(text) > 0 && len(name) > 0; name = name[1:] {
		c, n := decodedByte(text)
		if c != name[0] {
			return false
		}
		text = text[n:]
	}
	return len(text)+len(name) == 0
}
