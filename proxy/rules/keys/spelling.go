package keys

import (
	"bytes"
	"encoding/base64"
	"slices"

	"weir/internal/net/http1"
)

// This file has the normal forms of values and names. Where text is already normal, nothing is
// appended to memory.

// decodeForm returns a part of a query decoded as application/x-www-form-urlencoded:
// escapes, and + for a space. Invalid escapes stay unchanged. If the text changes, the
// result is appended to memory.
func decodeForm(buf, text []byte) (out, decoded []byte) {
	return appendDecoded(buf, text, "%+")
}

// appendDecoded decodes the escapes that begin with one of the given characters.
func appendDecoded(buf, text []byte, escapes string) (out, decoded []byte) {
	plain := bytes.IndexAny(text, escapes)
	if plain < 0 {
		return buf, text
	}
	start := len(buf)
	buf = append(buf, text[:plain]...)
	for i := plain; i < len(text); {
		c, n := text[i], 1
		if c == '%' || len(escapes) > 1 {
			c, n = decodedByte(text[i:])
		}
		buf = append(buf, c)
		i += n
	}
	return buf, buf[start:]
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

// foldsTo reports whether some target takes a name of a cookie or parameter for another one. PHP
// skips leading spaces, replaces '.', ' ' and '[' by '_', and ends the name at a zero byte or,
// as Express does, at the [ of an array; ASP.NET ignores case.
func foldsTo(text []byte, name string) bool {
	i := 0
	for len(text) > 0 {
		c, n := decodedByte(text)
		text = text[n:]
		switch {
		case c == ' ' && i == 0:
			continue
		case i == len(name):
			return c == 0 || c == '['
		case foldName(c) != foldName(name[i]):
			return false
		}
		i++
	}
	return i == len(name)
}

func foldName(c byte) byte {
	if c == '.' || c == ' ' || c == '[' {
		return '_'
	}
	return lower(c)
}

// appendCookie returns the normal form of a cookie's value: without quotes, as Python and
// JavaScript remove them, and percent-decoded, as PHP and JavaScript do.
func appendCookie(buf, text []byte) (out, normal []byte) {
	if n := len(text); n >= 2 && text[0] == '"' && text[n-1] == '"' {
		buf, text = appendUnescaped(buf, text[1:n-1])
	}
	return appendDecoded(buf, text, "%")
}

// appendUnescaped resolves the escapes in a quoted cookie as Python does: \" and octal \101.
func appendUnescaped(buf, text []byte) (out, unescaped []byte) {
	if bytes.IndexByte(text, '\\') < 0 {
		return buf, text
	}
	start := len(buf)
	for len(text) > 0 {
		c := text[0]
		text = text[1:]
		switch {
		case c == '\\' && len(text) > 2 && text[0] <= '3' && isOctal(text[0]) && isOctal(text[1]) && isOctal(text[2]):
			c, text = (text[0]-'0')<<6|(text[1]-'0')<<3|(text[2]-'0'), text[3:]
		case c == '\\' && len(text) > 0:
			c, text = text[0], text[1:]
		}
		buf = append(buf, c)
	}
	return buf, buf[start:]
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

// appendCredentials returns the normal form of credentials (RFC 9110 section 11.4): the scheme in
// lower case, one space, and the rest; of Basic with its base64 decoded and encoded again. If the
// base64 continues after its padding, some targets ignore the rest and others skip the padding;
// second is the value that the latter read. A value without a space stays unchanged.
func appendCredentials(buf, text []byte) (out, normal, second []byte) {
	end := bytes.IndexAny(text, " \t")
	if end < 0 {
		return buf, text, nil
	}
	start := len(buf)
	for _, c := range text[:end] {
		buf = append(buf, lower(c))
	}
	buf = append(buf, ' ')
	scheme, rest := buf[start:], bytes.TrimLeft(text[end:], " \t")
	if string(scheme) != "basic " {
		buf = append(buf, rest...)
		return buf, buf[start:], nil
	}
	first, after, padded := bytes.Cut(rest, []byte("="))
	buf = appendBase64(buf, first, nil)
	normal = buf[start:]
	if padded && bytes.ContainsFunc(after, func(r rune) bool { return r < 0x80 && base64Byte(byte(r)) != 0 }) {
		start = len(buf)
		buf = appendBase64(append(buf, scheme...), first, after)
		second = buf[start:]
	}
	return buf, normal, second
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// appendBase64 appends the base64 of what the base64 in two pieces stands for. Characters that
// do not belong there are skipped, as PHP, Python and JavaScript do.
func appendBase64(buf, first, after []byte) []byte {
	buf = slices.Grow(buf, 2*(len(first)+len(after))) // so that what is decoded beside it fits too
	start := len(buf)
	for _, piece := range [...][]byte{first, after} {
		for _, c := range piece {
			if c = base64Byte(c); c != 0 {
				buf = append(buf, c)
			}
		}
	}
	letters := buf[start:]
	if len(letters)%4 == 1 { // six bits are no byte
		letters = letters[:len(letters)-1]
	}
	plain, _ := base64.RawStdEncoding.AppendDecode(buf, letters)
	return base64.StdEncoding.AppendEncode(buf[:start], plain[len(buf):])
}

// base64Byte returns a character of base64, also in the URL's alphabet, as one of the standard
// alphabet, and 0 for all others.
func base64Byte(c byte) byte {
	switch {
	case c == '-':
		return '+'
	case c == '_':
		return '/'
	case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '+', c == '/':
		return c
	}
	return 0
}
