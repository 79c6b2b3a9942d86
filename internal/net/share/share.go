// Package share makes the use of shared resources fair between clients. It determines which
// addresses are one client, such as all addresses of an IPv6 /64, and counts what each client
// uses. So no client can use more than its share, however many addresses, keys or connections
// it has.
package share

import (
	"hash/maphash"
	"net/netip"
)

// A Client is one party among those that share something: an IPv4 address, or the /64 of an
// IPv6 address, since a host can use any address of its /64 (RFC 4291 section 2.5.4). An
// address that embeds an IPv4 address, IPv4-mapped or behind NAT64 (RFC 6052 section 2.1),
// is that IPv4 address. The zero Client stands for all whose address is unknown.
//
// Clients are comparable. Within a client, the keys of rules may divide a share further; they
// never enlarge it, since clients choose them.
type Client struct{ network netip.Addr }

// nat64 is the well-known prefix of translated IPv4 addresses.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Canonical returns an address without optional parts: an IPv4 address that is written as IPv6,
// mapped or behind NAT64, becomes that IPv4 address, and a zone is removed.
func Canonical(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is4() {
		return addr
	}
	if addr = addr.WithZone(""); nat64.Contains(addr) {
		b := addr.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// ClientOf returns the client with an address. Behind trusted proxies that must be the last address
// that is not theirs, see decide.ForwardedInfoOf.
func ClientOf(addr netip.Addr) Client {
	addr = Canonical(addr)
	switch {
	case !addr.IsValid():
		return Client{}
	case addr.Is4():
		return Client{addr}
	}
	p, err := addr.Prefix(64)
	if err != nil {
		panic("bug: share: " + err.Error())
	}
	return Client{p.Addr()}
}

// Addr returns the IPv4 address or the first address of the /64. It is invalid for the zero
// Client.
func (c Client) Addr() netip.Addr { return c.network }

// String returns the address or the network, as in 192.0.2.1 and 2001:db8::/64.
func (c Client) String() string {
	switch {
	case !c.network.IsValid():
		return "unknown"
	case c.network.Is4():
		return c.network.String()
	}
	return netip.PrefixFrom(c.network, 64).String()
}

// Hash returns a hash of the client.
func (c Client) Hash(seed maphash.Seed) uint64 {
	b := c.network.As16()
	return maphash.Bytes(seed, b[:])
}
