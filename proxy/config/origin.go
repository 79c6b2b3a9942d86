package config

import (
	"net/netip"
	"slices"
	"strings"

	"weir/internal/service"
	"weir/proxy/claims"
	"weir/proxy/rule"
	"weir/proxy/session"
)

// registerOrigin adds the settings about where requests come from.
func registerOrigin(s *service.Settings, d *session.Settings) {
	s.Func("TRUSTED_PROXIES", "", "networks and addresses of proxies whose X-Forwarded-For and similar fields are trusted",
		"networks and addresses, comma separated: 10.0.0.0/8,192.0.2.1,::1", parsed(&d.TrustedProxies, networks))
	s.Func("UNTRUSTED_FIELDS", "", "request fields, in addition to X-Forwarded-*, X-Real-IP and similar, that are dropped unless they come from TRUSTED_PROXIES",
		"names, comma separated, with * at the end as a wildcard: X-Remote-User,X-Auth-*", parsed(&d.Claims, func(text string) (*claims.Set, error) { return claims.New(elements(text)) }))
}

func networks(text string) (list []netip.Prefix, err error) {
	for _, part := range elements(text) {
		var n rule.Network
		if err := n.UnmarshalText([]byte(part)); err != nil {
			return nil, err
		}
		list = append(list, n.Prefix)
	}
	return list, nil
}

// elements returns the elements of a comma-separated list.
func elements(text string) (list []string) {
	for part := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(part))
	}
	return list
}

// TrustsLoopback reports whether TRUSTED_PROXIES contains addresses of this machine, so
// that a proxy on it forwards requests of others.
func (c *Config) TrustsLoopback() bool {
	for _, loopback := range []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("::ffff:127.0.0.0/104")} {
		if slices.ContainsFunc(c.data.TrustedProxies, loopback.Overlaps) {
			return true
		}
	}
	return false
}
