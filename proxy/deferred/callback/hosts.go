package callback

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Bounds of hosts and URLs.
const (
	hostsMax    = 64
	urlBytesMax = 2048
	// underWayMax and hostUnderWayMax bound the callbacks in progress: of all hosts, and of one.
	underWayMax     = 128
	hostUnderWayMax = 16
)

// HostsSyntax describes the text that [ParseHosts] accepts.
const HostsSyntax = "names or addresses, comma separated, such as hooks.example.com, hooks.example.com:8443, or, " +
	"for one with addresses " +
	"that are not public, hooks.internal=10.1.2.3 or hooks.internal:8443=10.1.0.0/16; at most 64"

// Hosts are the hosts that may be called back. A nil pointer allows none.
//
// Immutable after ParseHosts.
type Hosts struct{ list []host }

// A host is one entry of the list.
type host struct {
	line   string         // host:port
	within []netip.Prefix // allowed addresses; none: all public ones
}

// ParseHosts parses a list of hosts. The default port is 443. A host with `=` and an address or
// a prefix may only have these addresses, and an address stands for itself. All others must
// have public addresses.
func ParseHosts(text string) (*Hosts, error) {
	h := new(Hosts)
	for element := range strings.SplitSeq(text, ",") {
		name, within, narrowed := strings.Cut(strings.TrimSpace(element), "=")
		one, err := parseHost(strings.ToLower(name))
		if err == nil && narrowed {
			var p netip.Prefix
			p, err = parsePrefix(within)
			one.within = append(one.within, p)
		}
		if err != nil {
			return nil, fmt.Errorf("%q %w", strings.TrimSpace(element), err)
		}
		if have := h.find(one.line); have == nil {
			h.list = append(h.list, one)
		} else if len(have.within) == 0 || len(one.within) == 0 {
			return nil, fmt.Errorf("%q is given twice", one.line)
		} else {
			have.within = append(have.within, one.within...)
		}
	}
	if len(h.list) > hostsMax {
		return nil, fmt.Errorf("has %d hosts", len(h.list))
	}
	return h, nil
}

// parseHost parses a name or an address with an optional port.
func parseHost(text string) (h host, err error) {
	u, err := url.Parse("https://" + text)
	if err != nil || u.Host != text || text == "" {
		return h, errors.New("is not a host")
	}
	if h.line, err = lineOf(u); err != nil {
		return h, err
	}
	name := u.Hostname()
	if a, err := netip.ParseAddr(name); err == nil {
		h.within = []netip.Prefix{netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())}
		return h, nil
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" || last[0] >= '0' && last[0] <= '9' || strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
	}) {
		return h, errors.New("is neither a name nor an address")
	}
	return h, nil
}

// parsePrefix parses an address or a prefix.
func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p != p.Masked() || p.Addr().Is4In6() {
		return p, errors.New("has no address or prefix after =")
	}
	return p, nil
}

// lineOf returns host and port of a URL.
func lineOf(u *url.URL) (string, error) {
	port := u.Port()
	if port == "" && !strings.HasSuffix(u.Host, ":") {
		port = "443"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
		return "", errors.New("has no port from 1 to 65535")
	}
	name := strings.ToLower(u.Hostname())
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	return name + ":" + port, nil
}

// find returns the host with that line, or nil if it is not listed.
func (h *Hosts) find(line string) *host {
	if h == nil {
		return nil
	}
	for i := range h.list {
		if h.list[i].line == line {
			return &h.list[i]
		}
	}
	return nil
}

// Check reports whether a URL may be called back, and returns its host and port. The error is
// for clients, so it does not list the hosts, whose names may be internal.
func (h *Hosts) Check(text string) (line string, err error) {
	wrong := func(what string) (string, error) {
		return "", fmt.Errorf("%s; allowed are https URLs of the hosts that this proxy is set to call back", what)
	}
	if len(text) > urlBytesMax {
		return wrong("is longer than 2048 characters")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return wrong("is not a URL")
	case u.Scheme != "https":
		return wrong("is not https")
	case u.User != nil:
		return wrong("has a user")
	case strings.Contains(text, "#"):
		return wrong("has a fragment")
	}
	if line, err = lineOf(u); err != nil {
		return wrong(err.Error())
	}
	if h.find(line) == nil {
		return wrong("has a host that is not listed")
	}
	return line, nil
}

// Permits returns why a host with that line must not be reached at an address, or nil if it may.
func (h *Hosts) Permits(line string, addr netip.Addr) error {
	one := h.find(line)
	if one == nil {
		return errors.New("the host is not listed")
	}
	if len(one.within) == 0 && public(addr) {
		return nil
	}
	for _, p := range one.within {
		if p.Contains(addr.Unmap()) { // addresses with a zone are never contained
			return nil
		}
	}
	if len(one.within) == 0 {
		return fmt.Errorf("the address %s is not public", addr)
	}
	return fmt.Errorf("the address %s is not one of those listed", addr)
}

// Parallel returns the bound on callbacks in progress to one host, of all clients together.
func (h *Hosts) Parallel() int {
	if h == nil {
		return 1
	}
	return max(1, min(hostUnderWayMax, underWayMax/len(h.list)))
}
