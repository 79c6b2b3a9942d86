package rule

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/data/strict"
	"weir/internal/net/share"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/pattern"
)

// exemptMax bounds the exemptions of a file and of the setting EXEMPT. They are tried one
// after the other.
const exemptMax = 64

// An exemption matches requests to which no limit applies: a rule with exempt: true, or
// an element of the setting EXEMPT. It matches only what a client cannot forge: the path
// that the target answers, the method, and the address.
//
// Immutable after New.
type exemption struct {
	methods   []string
	path      *pattern.Pattern
	addresses []AddrPrefix
	preflight bool // matches preflights only
	of        int  // index of the exempting rule
}

// Exemptions are the parsed setting EXEMPT.
//
// Immutable after New.
type Exemptions []exemption

// ParseExemptions parses paths, as in a match, networks and addresses.
func ParseExemptions(words []string) (e Exemptions, err error) {
	if len(words) > exemptMax {
		return e, fmt.Errorf("must be at most %d, is %d", exemptMax, len(words))
	}
	for _, word := range words {
		var one exemption
		if strings.HasPrefix(word, "/") {
			one.path, err = pattern.Path(word)
		} else {
			one.addresses = make([]AddrPrefix, 1)
			err = one.addresses[0].UnmarshalText([]byte(word))
		}
		if err != nil {
			return e, err
		}
		e = append(e, one)
	}
	return e, nil
}

// Notes returns warnings about elements that exempt more than can have been intended.
func (e Exemptions) Notes() (notes []string) {
	for _, one := range e {
		if note := one.note(); note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

// note returns a warning if the exemption leaves no limits, otherwise "".
func (e *exemption) note() string {
	if e.methods != nil || e.path != nil && !e.path.MatchesAll() {
		return ""
	}
	if e.addresses == nil {
		return "/** exempts every request: nothing is limited"
	}
	for _, network := range e.addresses {
		if network.Bits() == 0 {
			return fmt.Sprintf("%v exempts all clients with such addresses: no limit applies to them", network)
		}
	}
	return ""
}

// An AddrPrefix is a network. A single address is a network of one.
type AddrPrefix struct{ netip.Prefix }

// UnmarshalText parses a network or an address.
func (p *AddrPrefix) UnmarshalText(text []byte) error {
	network, err := netip.ParsePrefix(string(text))
	if address, alone := netip.ParseAddr(string(text)); alone == nil && address.Zone() == "" {
		network, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("must be a network or an address such as 10.0.0.0/8 or 2001:db8::1, is %q", text)
	case network.Addr().Is4In6() || network.Bits() >= 96 && share.Canonical(network.Addr()) != network.Addr():
		return fmt.Errorf("must be written as IPv4, because addresses are compared in that form, is %q", text)
	}
	p.Prefix = network.Masked()
	return nil
}

// has reports whether one of the networks contains the address, or there are none.
func has(networks []AddrPrefix, a netip.Addr) bool {
	a = share.Canonical(a)
	return networks == nil || slices.ContainsFunc(networks, func(n AddrPrefix) bool { return n.Contains(a) })
}

func (j *judge) exempt(n *strict.Node, c *compiled) {
	j.match(n, c)
	for _, name := range n.Names {
		switch word := string(name.Word); word {
		case "id", "exempt", "match":
		case "mode":
			j.Check(c.Mode == Shadow, c.path+".mode", "must not be shadow with exempt: nothing is refused")
		default:
			j.Fault(strict.MemberPath(c.path, word), "is not allowed with exempt, since no limit applies; allowed: id, match")
		}
	}
	m := &c.Match
	if m.Host != "" || m.Headers != nil {
		j.Fault(c.path+".match",
			"must not have host or headers with exempt, since clients can send any; allowed: methods, path, addresses")
	}
	j.Check(m.Path == "" && m.Addresses == nil, c.path+".match",
		"must have a path or addresses with exempt: otherwise too many requests are exempt")
}

// splitExempt separates the rules that exempt from the others, which keep their order.
func (j *judge) splitExempt(s *Set) {
	all := s.rules
	s.rules, s.written = nil, make([]Rule, 0, len(all))
	for _, c := range all {
		s.written = append(s.written, c.Rule)
		if c.Exempt {
			one := exemption{methods: c.Match.Methods, path: c.pathOf, addresses: c.Match.Addresses, of: len(s.exempting)}
			if note := one.note(); note != "" {
				j.Note("", "rule %q: %s", c.ID, note)
			}
			s.exempt = append(s.exempt, one)
			s.exempting = append(s.exempting, c.Rule)
		} else {
			s.rules = append(s.rules, c)
		}
	}
	j.Check(len(s.exempt) > exemptMax, "rules", "must have at most %d rules with exempt, has %d", exemptMax, len(s.exempt))
	for _, one := range j.o.Exempt {
		one.of = len(s.exempting)
		s.exempt = append(s.exempt, one)
	}
	if len(j.o.Exempt) > 0 {
		s.exempting = append(s.exempting, Rule{ID: ExemptRule, Exempt: true})
	}
	if j.o.ExemptPreflights {
		s.exempt = append(s.exempt, exemption{preflight: true, of: len(s.exempting)})
		s.exempting = append(s.exempting, Rule{ID: PreflightRule, Exempt: true})
	}
}

// Exempting returns how many rules exempt requests. [Set.Rule] has them after the others,
// from index Len on.
func (s *Set) Exempting() int { return len(s.exempting) }

// Exempt reports whether no limit applies to a request, and the index of the rule that
// says so. It is called before Match. A path is exempt only if it is written in its
// normal form, and not if a target could read it differently.
func (s *Set) Exempt(r *keys.Request, client netip.Addr, x *Scratch) (index int, exempt bool) {
	if len(s.exempt) == 0 {
		return none, false
	}
	x.begin(s.parts, r, client)
	for i := range s.exempt {
		if e := &s.exempt[i]; e.takes(x) {
			return len(s.rules) + e.of, true
		}
	}
	return none, false
}

func (e *exemption) takes(x *Scratch) bool {
	if !takes(e.methods, x.request.MethodText) || !has(e.addresses, x.client) || e.preflight && !IsPreflight(x.request) {
		return false
	}
	if e.path == nil {
		return true
	}
	interpretations := x.interpretations()
	return len(interpretations) == 1 && bytes.Equal(interpretations[0], x.request.Path) && !doubtful(interpretations[0]) &&
		e.path.Matches(interpretations[0][1:])
}

// doubtful reports whether a path in its normal form has escapes that some target could
// read as another path: a backslash that Windows takes for a slash, an end of string, a
// double escape, a slash or dot in an overlong UTF-8 form, and any escape next to dots
// that would lead upwards.
func doubtful(path []byte) bool {
	up := bytes.Contains(path, []byte(".."))
	for {
		i := bytes.IndexByte(path, '%')
		if i < 0 {
			return false
		}
		switch string(path[i+1 : i+3]) {
		case "5C", "00", "25", "C0", "C1":
			return true
		}
		if up {
			return true
		}
		path = path[i+3:]
	}
}
