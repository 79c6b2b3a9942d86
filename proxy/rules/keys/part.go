package keys

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/net/http1"
)

// A Part is one of the parts of a key. The zero Part is invalid.
type Part struct {
	Source Source
	secret bool   // written with secret:; see Secret
	bits4  uint8  // ip: prefix length that identifies IPv4 clients
	bits6  uint8  // ip: likewise for IPv6
	Name   string // header, cookie, query: as written
}

// A Source is where the value of a part comes from.
type Source uint8

const (
	None Source = iota
	Global
	IP
	Header
	Cookie
	Query
	Path
	Method
	Host
)

// partWords lists the possible parts for messages.
const partWords = "global, ip, ip/24, ip/64, header:N, cookie:N, query:N, path, method, host, secret:header:N"

// An IPv6 client has at least a /64 to itself (RFC 6177). Counting addresses within it
// separately would give it any number of keys.
const (
	bits4Default = 32
	bits6Default = 64
)

// ParsePart parses a part of a rule's key or of CLIENT_KEY:
//
//	global            the same for all requests
//	ip                the client's address: IPv4 whole, IPv6 its /64
//	ip/24             up to 32: IPv4 by that prefix, IPv6 by /64
//	ip/56             from 33: IPv6 by that prefix, IPv4 whole
//	header:X-Partner  the field of that name; see [Interpretations] if there are several lines
//	cookie:session    the cookie of that name, unquoted and decoded
//	query:auth        the parameter of that name, decoded
//	path              the path in its normal form: see [pattern.AppendPathPart]
//	method, host      the method; the host without port, in lower case
//
// header, cookie and query may be preceded by secret:, see [Part.Secret].
func ParsePart(text string) (Part, error) {
	word, name, named := strings.Cut(text, ":")
	source := Source(max(0, slices.Index(sourceWords[:], word)))
	switch {
	case named && word == "secret":
		return parseSecret(text, name)
	case text == "ip":
		return Part{Source: IP, bits4: bits4Default, bits6: bits6Default}, nil
	case strings.HasPrefix(text, "ip/"):
		return parsePrefix(text)
	case text == "global", text == "path", text == "method", text == "host":
		return Part{Source: source}, nil
	case named && word == "header" && IsForwardingField(name):
		return Part{}, fmt.Errorf(
			"must not be a field that any client can write an address into; use ip (see TRUSTED_PROXIES), is %q", text)
	case (word == "header" || word == "cookie") && http1.IsToken(name), word == "query" && name != "":
		return Part{Source: source, Name: name}, nil
	case named && (word == "header" || word == "cookie" || word == "query"):
		return Part{}, fmt.Errorf("must name a %s of letters, digits and the like, is %q", word, text)
	}
	return Part{}, fmt.Errorf("must be one of %s, is %q", partWords, text)
}

// parseSecret parses a part that begins with secret:; left is the text after that.
func parseSecret(text, left string) (Part, error) {
	p, err := ParsePart(left)
	if err == nil && (p.secret || p.Source != Header && p.Source != Cookie && p.Source != Query) {
		err = fmt.Errorf("must be secret:header:N, secret:cookie:N or secret:query:N, is %q", text)
	}
	p.secret = true
	return p, err
}

// Secret reports whether the values of the part are kept and shown as digests only. That
// is so for cookies, for fields that carry credentials, and for parts written with
// secret:. See [AppendSecret].
func (p Part) Secret() bool {
	return p.secret || p.Source == Cookie || p.Source == Header &&
		isOneOf(p.Name, "Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key")
}

// credentials reports whether values of the part are credentials of RFC 9110 section 11.4.
func (p *Part) credentials() bool {
	n := len(p.Name)
	return (n == len("Authorization") || n == len("Proxy-Authorization")) && p.Source == Header &&
		isOneOf(p.Name, "Authorization", "Proxy-Authorization")
}

// Normalizes reports whether [Part.Normal] may change a value of a field or a cookie.
func (p Part) Normalizes() bool { return p.Source == Cookie || p.credentials() }

func isOneOf(name string, names ...string) bool {
	return slices.ContainsFunc(names, func(one string) bool { return strings.EqualFold(one, name) })
}

// MarkedSecret reports whether the part was written with secret:, or is canonical and secret.
func (p Part) MarkedSecret() bool { return p.secret }

// IsForwardingField reports whether a field says where a request comes from. Only trusted
// proxies may send such fields, and the part ip takes them into account.
func IsForwardingField(name string) bool {
	return isOneOf(name, "X-Forwarded-For", "Forwarded", "X-Real-IP", "True-Client-IP")
}

func parsePrefix(text string) (Part, error) {
	bits, err := strconv.ParseUint(text[len("ip/"):], 10, 8)
	p := Part{Source: IP, bits4: bits4Default, bits6: bits6Default}
	switch {
	case err != nil || bits == 0 || bits > 128 || text != "ip/"+strconv.FormatUint(bits, 10):
		return Part{}, fmt.Errorf("must have a prefix of 1 to 32 for IPv4 or 33 to 128 for IPv6, is %q", text)
	case bits <= 32:
		p.bits4 = uint8(bits)
	default:
		p.bits6 = uint8(bits)
	}
	return p, nil
}

var sourceWords = [...]string{"", "global", "ip", "header", "cookie", "query", "path", "method", "host"}

// String returns the part in the form of [ParsePart].
func (p Part) String() string {
	if p.secret {
		p.secret = false
		return "secret:" + p.String()
	}
	switch word := sourceWords[p.Source]; {
	case p.Source == IP && p.bits4 != bits4Default:
		return "ip/" + strconv.Itoa(int(p.bits4))
	case p.Source == IP && p.bits6 != bits6Default:
		return "ip/" + strconv.Itoa(int(p.bits6))
	case p.Name != "":
		return word + ":" + p.Name
	default:
		return word
	}
}

// MarshalText returns [Part.String].
func (p Part) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is [ParsePart].
func (p *Part) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePart(string(text))
	return err
}

// Canonical returns the same Part for all parts with the same meaning: field names are
// case-insensitive, and some parts are secret without being marked. [Part.MarkedSecret] of the
// result reports whether the part is secret.
func (p Part) Canonical() Part {
	p.secret = p.Secret()
	if p.Source == Header {
		p.Name = strings.ToLower(p.Name)
	}
	return p
}

// IsToken reports whether a word can be the name of a field or a method.
func IsToken(word string) bool { return http1.IsToken(word) }
