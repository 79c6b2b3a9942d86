package http1

import (
	"bytes"
	"net/netip"
)

// portMax is the largest port number.
const portMax = 65535

// validHost reports whether h is a valid value of a Host field (RFC 9110 7.2, RFC 3986 3.2.2): an
// IP literal in brackets, or a registered name without empty labels (except one dot at its end),
// optionally followed by ':' and a number.
func validHost(h []byte) bool {
	if len(h) == 0 {
		return false
	}
	if h[0] == '[' {
		return validLiteral(h)
	}
	for i, label := 0, 0; ; { // label is where the current label begins
		for i < len(h) && hostClass[h[i]] != 0 {
			i++
		}
		switch {
		case i == len(h):
			return true
		case h[i] == ':':
			return i > 0 && validPort(h[i+1:])
		case h[i] == '.' && i > label:
			i++
			label = i
		case h[i] == '%' && i+2 < len(h) && IsHex(h[i+1]) && IsHex(h[i+2]):
			i += 3
		default:
			return false
		}
	}
}

// hostClass marks the bytes of a registered name that need no escape, except '.' (RFC 3986:
// unreserved and sub-delims).
var hostClass = hostClasses()

func hostClasses() (t [256]uint8) {
	for c := range t {
		if tokenClass[c] == classWord {
			t[c] = 1
		}
	}
	for _, c := range []byte("_~!$&'()*+,;=") {
		t[c] = 1
	}
	return t
}

// validPort reports whether p is empty or a port number.
func validPort(p []byte) bool {
	n := 0
	for _, c := range p {
		if !isDigit(c) {
			return false
		}
		if n = n*10 + int(c-'0'); n > portMax {
			return false
		}
	}
	return true
}

// hasPort reports whether a valid host ends in ':' and a number.
func hasPort(h []byte) bool {
	return bytes.IndexByte(h, ':') >= 0 && isDigit(h[len(h)-1])
}

// validLiteral reports whether h is "[" address "]", optionally followed by a port.
func validLiteral(h []byte) bool {
	end := bytes.IndexByte(h, ']')
	if end < 0 {
		return false
	}
	address, rest := h[1:end], h[end+1:]
	if len(rest) > 0 && (rest[0] != ':' || !validPort(rest[1:])) {
		return false
	}
	if len(address) > 0 && address[0]|0x20 == 'v' {
		return validFutureAddress(address)
	}
	if zone := bytes.Index(address, []byte("%25")); zone >= 0 {
		if !validZone(address[zone+3:]) {
			return false
		}
		address = address[:zone]
	}
	if len(address) > addressMax {
		return false
	}
	addr, err := netip.ParseAddr(string(address))
	return err == nil && addr.Is6() && addr.Zone() == ""
}

// addressMax is the length of the longest IPv6 address.
const addressMax = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// validFutureAddress checks "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" ).
func validFutureAddress(a []byte) bool {
	dot := bytes.IndexByte(a, '.')
	if dot < 2 || dot+1 == len(a) {
		return false
	}
	for _, c := range a[1:dot] {
		if !IsHex(c) {
			return false
		}
	}
	for _, c := range a[dot+1:] {
		if hostClass[c] == 0 && c != ':' && c != '.' {
			return false
		}
	}
	return true
}

// validZone checks a zone identifier (RFC 6874): one or more unreserved or
// escaped bytes.
func validZone(z []byte) bool {
	for _, c := range z {
		if tokenClass[c] != classWord && c != '_' && c != '~' && c != '.' && c != '%' {
			return false
		}
	}
	return len(z) > 0 && validEscapes(z)
}
