package callback

import "net/netip"

// special are the special-purpose addresses of IPv4, and those among the global unicast
// addresses of IPv6 (RFC 6890 and IANA's registries).
var special = func() (all []netip.Prefix) {
	for _, text := range [...]string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
		"240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

// IPv6 addresses that contain an IPv4 address.
var (
	global = netip.MustParsePrefix("2000::/3")
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: in the last four bytes
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056: in the bytes 2 to 5
)

// public reports whether an address belongs to a host on the Internet. An IPv6 address that
// contains an IPv4 address is public if that is.
func public(a netip.Addr) bool {
	if a = a.Unmap(); a.Is6() {
		b := a.As16()
		switch {
		case a.Zone() != "":
			return false
		case nat64.Contains(a):
			return public(netip.AddrFrom4([4]byte(b[12:])))
		case sixTo4.Contains(a):
			return public(netip.AddrFrom4([4]byte(b[2:6])))
		case !global.Contains(a):
			return false
		}
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return a.IsValid()
}
