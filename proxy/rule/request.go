package rule

import (
	"net/netip"
	"slices"

	"weir/proxy/pattern"
)

// A Scratch is the memory in which requests are matched, one after the other.
//
// Owned by its loop.
type Scratch struct {
	request Request
	method  []byte
	client  netip.Addr
	parts   []Part
	hits    []Hit
	values  []value                     // by slot
	paths   [pattern.ReadingsMax][]byte // the readings of the path
	pathN   int                         // how many there are; 0: not known
	host    []byte
	hostIs  bool // host and hasHost are known
	hasHost bool
	// memory is what keys and decoded values are appended to. When it grows what
	// was cut from the old one stays valid.
	memory []byte
}

// A value is what a request has for a part.
type value struct {
	text    []byte
	secret  []byte // of a secret part: as it is in keys, when it was needed
	known   bool   // looked up
	present bool
}

// begin forgets the last request.
func (x *Scratch) begin(parts []Part, r Request, client netip.Addr) {
	x.request, x.client, x.parts = r, client, parts
	x.method, _ = r.Part(methodPart)
	x.hits, x.memory = x.hits[:0], x.memory[:0]
	x.pathN, x.hostIs = 0, false
	if cap(x.values) < len(parts) {
		x.values = make([]value, len(parts))
	}
	x.values = x.values[:len(parts)]
	clear(x.values)
}

// value returns what the request has for a part.
func (x *Scratch) value(slot int) value {
	v := &x.values[slot]
	if !v.known {
		v.known = true
		v.text, v.present = x.find(x.parts[slot])
	}
	return *v
}

// field returns the value of a field that a slot stands for; nothing without a
// slot.
func (x *Scratch) field(slot int) []byte {
	if slot == none {
		return nil
	}
	return x.value(slot).text
}

func (x *Scratch) find(p Part) (text []byte, present bool) {
	switch p.source {
	case sourceIP:
		if !x.client.IsValid() {
			return nil, false
		}
		start := len(x.memory)
		x.memory = p.appendAddress(x.memory, x.client)
		return x.memory[start:], true
	case sourceHeader, sourceCookie:
		return x.request.Part(p)
	case sourceQuery:
		text, present = x.request.Part(p)
		return x.decoded(text), present
	case sourcePath:
		return x.agreed()
	case sourceMethod:
		return x.method, true
	case sourceHost:
		host := x.hostOf()
		return host, x.hasHost
	}
	return nil, false
}

// appendAddress appends the network that tells a client apart, or the address
// when all of it does. An IPv4 address within IPv6 is that IPv4 address.
func (p Part) appendAddress(dst []byte, a netip.Addr) []byte {
	a = a.Unmap().WithZone("")
	bits := int(p.bits6)
	if a.Is4() {
		bits = int(p.bits4)
	}
	if bits == a.BitLen() {
		return a.AppendTo(dst)
	}
	network, err := a.Prefix(bits)
	if err != nil {
		panic("bug: rule: " + err.Error())
	}
	return network.AppendTo(dst)
}

// readings returns the readings of the path, at least one.
func (x *Scratch) readings() [][]byte {
	if x.pathN == 0 {
		if path, _ := x.request.Part(pathPart); pattern.IsNormal(path) {
			x.paths[0], x.pathN = path, 1
		} else {
			x.memory, x.pathN = pattern.AppendReadings(x.memory, path, &x.paths)
		}
	}
	return x.paths[:x.pathN]
}

// matchesOtherwise says whether a pattern matches the path in another reading than
// the first.
func (x *Scratch) matchesOtherwise(p *pattern.Pattern) bool {
	return x.pathN > 1 && slices.ContainsFunc(x.paths[1:x.pathN], func(path []byte) bool { return p.Matches(path[1:]) })
}

// holdsOtherwise says whether a condition on the path is fulfilled by one of several
// readings.
func (x *Scratch) holdsOtherwise(c *condition) bool {
	return x.pathN > 1 && x.parts[c.Slot].source == sourcePath &&
		slices.ContainsFunc(x.paths[:x.pathN], func(path []byte) bool { return c.holds(value{text: path, present: true}) })
}

// agreed returns the value of the part path: see [pattern.Agreed].
func (x *Scratch) agreed() (path []byte, ok bool) {
	x.memory, path, ok = pattern.Agreed(x.memory, x.readings())
	return path, ok
}

// hostOf returns the host in the form that [pattern.AppendHost] gives it.
func (x *Scratch) hostOf() []byte {
	if !x.hostIs {
		start := len(x.memory)
		var host []byte
		host, x.hasHost = x.request.Part(hostPart)
		x.memory = pattern.AppendHost(x.memory, host)
		x.hostIs, x.host = true, x.memory[start:]
	}
	return x.host
}

func unquote(text []byte) []byte {
	if n := len(text); n >= 2 && text[0] == '"' && text[n-1] == '"' {
		return text[1 : n-1]
	}
	return text
}

// trim takes off the spaces and tabs around text.
func trim(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t') {
		text = text[1:]
	}
	for n := len(text); n > 0 && (text[n-1] == ' ' || text[n-1] == '\t'); n = len(text) {
		text = text[:n-1]
	}
	return text
}

// decoded returns a part of a query decoded as forms are (application/x-www-form-urlencoded):
// escapes, and + for a space. What is no escape stays as it is. It is in the memory when it
// changes.
func (x *Scratch) decoded(text []byte) []byte {
	plain := 0
	for plain < len(text) && text[plain] != '%' && text[plain] != '+' {
		plain++
	}
	if plain == len(text) {
		return text
	}
	start := len(x.memory)
	x.memory = append(x.memory, text[:plain]...)
	for i := plain; i < len(text); {
		c, n := decodedByte(text[i:])
		x.memory = append(x.memory, c)
		i += n
	}
	return x.memory[start:]
}

// decodedByte returns the byte that text begins with, decoded, and how many bytes of text
// it is.
func decodedByte(text []byte) (c byte, n int) {
	switch c = text[0]; {
	case c == '+':
		return ' ', 1
	case c == '%' && len(text) > 2 && pattern.IsHex(text[1]) && pattern.IsHex(text[2]):
		return pattern.HexValue(text[1])<<4 | pattern.HexValue(text[2]), 3
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
