package decide

import (
	"bytes"
	"net/netip"

	"weir/internal/net/http1"
)

// A ForwardedInfo is what trusted proxies say about where a request comes from.
type ForwardedInfo struct {
	Client netip.Addr
	Proto  []byte // of the client's connection, as Forwarded has it; nil: it has none. Borrowed
	Listed bool   // there is X-Forwarded-For
	Differ bool   // it and Forwarded name different clients
}

// ForwardedInfoOf returns what the fields of a request from at, a trusted proxy, say. The client is the
// last address in X-Forwarded-For that is not trusted, or otherwise the first one; without
// X-Forwarded-For that in Forwarded, and without both the one in X-Real-IP. If there is none it is
// at.
func ForwardedInfoOf(fields []http1.Field, at netip.Addr, trusts func(netip.Addr) bool) ForwardedInfo {
	o := ForwardedInfo{Client: at}
	forwarded := false
	var real []byte // of the last line, which is that of the nearest proxy
	for i := range fields {
		switch f := &fields[i]; {
		case f.ID == http1.FieldXForwardedFor:
			o.Listed = o.Listed || len(f.Value) > 0
		case len(f.Name) != len("Forwarded"): // and X-Real-IP
		case http1.EqualFold(f.Name, "Forwarded"):
			forwarded = true
		case http1.EqualFold(f.Name, "X-Real-IP"):
			real = f.Value
		}
	}
	w := way{at: at}
	if forwarded {
		w.back(fields, trusts)
		o.Proto, forwarded = w.proto, w.hops > 0
	}
	switch {
	case o.Listed:
		o.Client = ClientOf(fields, at, trusts)
		o.Differ = forwarded && o.Client != w.at
	case forwarded:
		o.Client = w.at
	case real != nil:
		if a, ok := addrOf(real); ok {
			o.Client = a
		}
	}
	return o
}

// A way is the way that a request has taken, read from Forwarded (RFC 7239), from its end.
type way struct {
	at    netip.Addr // the address reached so far
	proto []byte     // in the element that names it
	hops  int        // addresses so far
}

// back goes back to the last address that is not trusted, as long as elements name addresses.
func (w *way) back(fields []http1.Field, trusts func(netip.Addr) bool) {
	for i := len(fields) - 1; i >= 0; i-- {
		if len(fields[i].Name) != len("Forwarded") || !http1.EqualFold(fields[i].Name, "Forwarded") {
			continue
		}
		for rest := fields[i].Value; len(rest) > 0; {
			var element []byte
			rest, element = cutLast(rest, ',')
			if element = bytes.TrimSpace(element); len(element) == 0 {
				continue
			}
			if !w.step(element) || !trusts(w.at) {
				return
			}
		}
	}
}

// step takes one element. It returns false if the element names no address: who sent those before it is
// unknown.
func (w *way) step(element []byte) bool {
	var node, proto []byte
	for rest := element; len(rest) > 0; {
		var pair []byte
		rest, pair = cutLast(rest, ';')
		name, value, _ := bytes.Cut(bytes.TrimSpace(pair), []byte("="))
		switch {
		case http1.EqualFold(name, "for") && node != nil, http1.EqualFold(name, "proto") && proto != nil:
			return false // must not be there twice (RFC 7239 section 4)
		case http1.EqualFold(name, "for"):
			node = value
		case http1.EqualFold(name, "proto"):
			proto = value
		}
	}
	w.proto = scheme(proto)
	a, ok := addrOf(node)
	if ok {
		w.at = a
		w.hops++
	}
	return ok
}

// scheme returns a value of proto without quotes, or nil if it is not the name of a scheme.
func scheme(value []byte) []byte {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		value = value[1 : n-1]
	}
	if len(value) == 0 || len(value) > schemeBytesMax {
		return nil
	}
	for i, c := range value {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return nil
		}
	}
	return value
}

// schemeBytesMax bounds a scheme that is passed on.
const schemeBytesMax = 16

// cutLast cuts text at the last separator that is not in a quoted string. It reads from the end,
// so that a quote which a client has left open does not hide what proxies have added.
func cutLast(text []byte, separator byte) (before, last []byte) {
	quoted := false
	for i := len(text) - 1; i >= 0; i-- {
		switch {
		case text[i] == '"' && (!quoted || !escaped(text[:i])):
			quoted = !quoted
		case text[i] == separator && !quoted:
			return text[:i], text[i+1:]
		}
	}
	return nil, text
}

// escaped reports whether a backslash escapes what follows text.
func escaped(text []byte) bool {
	n := len(text) - len(bytes.TrimRight(text, `\`))
	return n%2 == 1
}
