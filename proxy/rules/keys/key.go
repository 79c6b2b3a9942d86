package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"

	"weir/internal/net/share"
	"weir/proxy/rules/pattern"
)

// AppendPart appends a value as a part of a key: its length, a colon, and the value.
// Different lists of parts give different keys, and the empty value differs from a
// missing one. The key of a rule with the key global is empty.
func AppendPart(dst, text []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(len(text)), 10)
	return append(append(dst, ':'), text...)
}

// Normal returns the normal form of a value of the part. Values of parameters are given
// decoded.
func (p Part) Normal(text []byte) ([]byte, error) {
	switch p.Source {
	case Path:
		return pattern.AppendPathPart(nil, text), nil
	case Host:
		return pattern.AppendHost(nil, text), nil
	case IP:
		return p.normalAddress(string(text))
	case Cookie:
		_, text = appendCookie(nil, text)
	case Header:
		if p.credentials() {
			_, text, _ = appendCredentials(nil, text)
		}
	}
	return text, nil
}

func (p Part) normalAddress(text string) ([]byte, error) {
	network, err := netip.ParsePrefix(text)
	address, alone := netip.ParseAddr(text)
	if alone != nil {
		address = network.Addr()
	}
	bits := int(p.bits6)
	if share.Canonical(address).Is4() {
		bits = int(p.bits4)
	}
	switch {
	case alone != nil && err != nil:
		return nil, fmt.Errorf("must be an address or a network, such as 192.0.2.7 or 2001:db8:1:2::/64, is %q", text)
	case alone != nil && network.Bits() != bits:
		return nil, fmt.Errorf("must be an address, or a network of /%d as the rule counts them, is %q", bits, text)
	}
	return p.AppendAddress(nil, address), nil
}

// AppendMissingPart appends the part shared by all requests that lack the value.
func AppendMissingPart(dst []byte) []byte { return append(dst, missingMark) }

// AppendSecret appends a value as a part of a key that does not reveal it: a # and its
// SHA-256. Keys contain secret values only in this form, so neither stores nor anything
// else derived from keys contain the value.
func AppendSecret(dst, text []byte) []byte {
	sum := sha256.Sum256(text)
	return append(append(dst, secretMark), sum[:]...)
}

const (
	missingMark = '-'
	secretMark  = '#'
	shownBytes  = 6 // of a digest that is shown to people
)

// CutPart removes the first part from a key, which may be cut at its end. The value has
// the form shown to people: for a secret part sha256: and the first 12 digits that
// sha256sum prints for it. It is nil for a missing one.
func CutPart(key []byte) (value, rest []byte) {
	switch key[0] {
	case missingMark:
		return nil, key[1:]
	case secretMark:
		n := min(1+sha256.Size, len(key))
		return hex.AppendEncode([]byte("sha256:"), key[1:min(1+shownBytes, n)]), key[n:]
	}
	digits, rest, ok := bytes.Cut(key, []byte(":"))
	n, err := strconv.Atoi(string(digits))
	if !ok || err != nil || n < 0 { // not a key of a rule; show it unchanged
		return key, nil
	}
	n = min(n, len(rest))
	return rest[:n:n], rest[n:]
}

// emptySecret is the part for a secret without a value, which says nothing of who has it.
var emptySecret = AppendSecret(nil, nil)

// IdentifiesClient reports whether a key made of parts has a value that identifies one client, at least as
// well as [share.ClientOf] its address does: a field, a cookie, something secret, or an address. A path, a
// method, a host or a parameter is usually that of many clients.
func IdentifiesClient(parts []Part, key []byte) bool {
	for i := range parts {
		if len(key) == 0 {
			return false
		}
		value, rest := CutPart(key)
		empty := len(value) == 0 || bytes.HasPrefix(key, emptySecret)
		if key = rest; !empty && parts[i].identifies() {
			return true
		}
	}
	return false
}

func (p *Part) identifies() bool {
	if p.Source == IP {
		return p.bits4 >= bits4Default && p.bits6 >= bits6Default
	}
	return p.Source == Header || p.Secret()
}

// Redacted returns a secret value in the form shown to people.
func Redacted(text []byte) string {
	value, _ := CutPart(AppendSecret(nil, text))
	return string(value)
}

// AppendRedacted appends a key in the form shown to people; see [CutPart].
func AppendRedacted(dst, key []byte) []byte {
	for len(key) > 0 {
		value, rest := CutPart(key)
		if key[0] == secretMark {
			dst = AppendPart(dst, value)
		} else {
			dst = append(dst, key[:len(key)-len(rest)]...)
		}
		key = rest
	}
	return dst
}

// AppendAddress appends the network that identifies a client, or the address if its whole
// length does. An IPv4 address within IPv6 counts as the IPv4 address; see [share.Canonical].
func (p Part) AppendAddress(dst []byte, a netip.Addr) []byte {
	a = share.Canonical(a)
	bits := int(p.bits6)
	if a.Is4() {
		bits = int(p.bits4)
	}
	if bits == a.BitLen() {
		return a.AppendTo(dst)
	}
	network, err := a.Prefix(bits)
	if err != nil {
		panic("bug: keys: " + err.Error())
	}
	return network.AppendTo(dst)
}
