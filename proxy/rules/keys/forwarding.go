package keys

import (
	"bytes"
	"fmt"

	"weir/proxy/deferred"
)

// usual are the fields that targets and frameworks commonly trust.
var usual = [...]string{
	// address of the client
	"Forwarded", "Forwarded-For", "X-Forwarded", "X-Forwarded-*", "X-Original-Forwarded-For", "X-Real-IP",
	"Client-IP", "X-Client-IP", "True-Client-IP", "X-Cluster-Client-IP", "X-Remote-IP", "X-Remote-Addr",
	"X-Originating-IP",
	"CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4", "Fastly-Client-IP", "Fly-Client-IP", "X-Appengine-User-IP",
	"X-Azure-ClientIP", "X-Azure-SocketIP", "X-Envoy-External-Address", "Proxy-Client-IP", "WL-Proxy-Client-IP",
	// host, protocol and URL that it requested
	"X-Host", "X-Original-Host", "X-Original-URL", "X-Original-URI", "X-Rewrite-URL", "X-Scheme", "X-URL-Scheme",
	"Front-End-HTTPS",
	// certificate of the client (RFC 9440 section 4)
	"Client-Cert", "Client-Cert-Chain", "X-Client-Cert", "SSL-Client-*", "X-SSL-Client-*",
	// number of the delivery of a stored request
	deferred.AttemptField,
	// becomes HTTP_PROXY in CGI programs
	"Proxy",
}

// ForwardingFields are the names of fields that make claims about the origin of requests: the client's address,
// what it asked for, its certificate. Only trusted proxies may send them. Names that differ only in
// case or in characters other than letters and digits are the same, because programs that convert
// field names to variables do not distinguish X_Real_IP from X-Real-IP.
//
// Immutable after NewForwardingFields.
type ForwardingFields struct {
	// lengths has, by first character, the possible lengths of names as bits, so that most
	// fields need no comparison. Bit 63 stands for all lengths from 63.
	lengths  [256]uint64
	byLength [nameBytesMax + 1][]string
	prefixes []string
}

// nameBytesMax bounds a name in ForwardingFields.
const nameBytesMax = 63

// NewForwardingFields returns the usual names and those in more, which consist of letters, digits
// and hyphens and may end in *, a wildcard. The error names one that does not.
func NewForwardingFields(more []string) (*ForwardingFields, error) {
	s := new(ForwardingFields)
	for _, name := range more {
		if err := s.add(name); err != nil {
			return nil, err
		}
	}
	for _, name := range usual {
		_ = s.add(name)
	}
	return s, nil
}

func (f *ForwardingFields) add(name string) error {
	known := []byte(name)
	known, open := bytes.CutSuffix(known, []byte("*"))
	if n := len(known); n == 0 || n > nameBytesMax {
		return fmt.Errorf("%q must have 1 to %d characters", name, nameBytesMax)
	}
	for i, b := range known {
		if known[i] = folded[b]; known[i] == '-' && b != '-' {
			return fmt.Errorf("%q has characters other than letters, digits and -", name)
		}
	}
	lengths := uint64(1) << len(known)
	if open {
		f.prefixes = append(f.prefixes, string(known))
		lengths = -lengths // and all larger ones
	} else {
		f.byLength[len(known)] = append(f.byLength[len(known)], string(known))
	}
	for first := range f.lengths {
		if folded[first] == known[0] {
			f.lengths[first] |= lengths
		}
	}
	return nil
}

// Has reports whether a name is among them.
func (f *ForwardingFields) Has(name []byte) bool {
	return f.lengths[name[0]]>>min(len(name), nameBytesMax)&1 != 0 && f.finds(name)
}

// finds compares a name with all names of its length, and with the prefixes.
func (f *ForwardingFields) finds(name []byte) bool {
	if len(name) <= nameBytesMax {
		for _, known := range f.byLength[len(name)] {
			if HasPrefixFold(name, known) {
				return true
			}
		}
	}
	for _, prefix := range f.prefixes {
		if len(name) >= len(prefix) && HasPrefixFold(name, prefix) {
			return true
		}
	}
	return false
}

// HasPrefixFold reports whether a name begins with a folded one. It compares from the end, because
// many names begin with X-.
func HasPrefixFold(name []byte, known string) bool {
	for i := len(known) - 1; i >= 0; i-- {
		if folded[name[i]] != known[i] {
			return false
		}
	}
	return true
}

// Fold returns a letter in lower case, a digit, or - for anything else.
func Fold(c byte) byte { return folded[c] }

// folded has what Fold returns.
var folded = foldTable()

func foldTable() (t [256]byte) {
	for c := range t {
		t[c] = '-'
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = byte(c)
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = byte(c), byte(c)
	}
	return t
}
