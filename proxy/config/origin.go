package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/program/service"
	"weir/proxy/http/session"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

// registerOrigin adds the settings about where requests come from.
func registerOrigin(s *service.Settings, d *session.Settings) {
	s.Add(service.SettingList{
		{Name: "TRUSTED_PROXIES",
			Value: service.Func(&d.TrustedProxies, "networks and addresses, comma separated: 10.0.0.0/8,192.0.2.1,::1",
				networks),
			Help: "networks and addresses of proxies whose X-Forwarded-For, Forwarded, X-Real-IP and similar fields are " +
				"trusted"},
		{Name: "UNTRUSTED_FIELDS",
			Value: service.Func(&d.ForwardingFields,
				"names, comma separated, with * at the end as a wildcard: X-Remote-User,X-Auth-*", listed(keys.NewForwardingFields)),
			Help: "request fields, in addition to X-Forwarded-*, X-Real-IP and similar, that are dropped unless they come " +
				"from TRUSTED_PROXIES"},
	})
}

func networks(text string) (list []netip.Prefix, err error) {
	for _, part := range elements(text) {
		var n rule.AddrPrefix
		if err := n.UnmarshalText([]byte(part)); err != nil {
			return nil, err
		}
		list = append(list, n.Prefix)
	}
	return list, nil
}

// listed makes parse, which reads the elements of a list, read their text.
func listed[T any](parse func([]string) (T, error)) func(string) (T, error) {
	return func(text string) (T, error) { return parse(elements(text)) }
}

// elements returns the elements of a comma-separated list.
func elements(text string) (list []string) {
	for part := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(part))
	}
	return list
}

// noteOrigin notes networks of TRUSTED_PROXIES that contain all clients.
func (c *Config) noteOrigin() {
	for _, p := range c.data.TrustedProxies {
		if p.Bits() == 0 {
			c.Notes = append(c.Notes,
				fmt.Sprintf("TRUSTED_PROXIES: %s trusts everybody: each client can claim any address, and has a limit for each", p))
		}
	}
}

// SelfTarget returns the target that is the proxy which listens on addr, if there is one: it would
// answer each request 508 (Loop Detected).
func (c *Config) SelfTarget(addr string) (t Target, found bool) {
	bind, port, err := net.SplitHostPort(addr)
	if err != nil || port == "0" {
		return Target{}, false
	}
	for _, t := range c.Targets {
		if host, p, _ := net.SplitHostPort(t.Addr); p == port && listensOn(bind, host) {
			return t, true
		}
	}
	return Target{}, false
}

// listensOn reports whether a socket bound to an address of this machine gets connections to
// host. Names other than localhost are not resolved.
func listensOn(bind, host string) bool {
	to, err := netip.ParseAddr(host)
	if strings.EqualFold(host, "localhost") {
		to, err = netip.MustParseAddr("127.0.0.1"), nil
	}
	if err != nil {
		return false
	}
	at, err := netip.ParseAddr(bind)
	if err == nil && !at.IsUnspecified() {
		return at.Unmap() == to.Unmap()
	}
	if to.IsUnspecified() || to.Unmap().IsLoopback() {
		return true
	}
	own, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		network, err := netip.ParsePrefix(a.String())
		return err == nil && network.Addr() == to.Unmap()
	})
}

// TrustsLoopback reports whether TRUSTED_PROXIES contains addresses of this machine, so
// that a proxy on it forwards requests of others.
func (c *Config) TrustsLoopback() bool {
	for _, loopback := range []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("::ffff:127.0.0.0/104")} {
		if slices.ContainsFunc(c.data.TrustedProxies, loopback.Overlaps) {
			return true
		}
	}
	return false
}
