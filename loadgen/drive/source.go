package drive

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"weir/internal/data/strict"
)

const (
	sourcesMax = 1024 // local addresses of a program, at most
	// portRangeFile has the first and the last port that the kernel chooses for
	// connections, also for IPv6; portsUsual is the usual number of these ports.
	portRangeFile = "/proc/sys/net/ipv4/ip_local_port_range"
	portsUsual    = 60_999 - 32_768 + 1
)

// SourcesSyntax describes what ParseSources accepts.
const SourcesSyntax = "addresses or networks of this machine, like 10.0.0.1, 127.0.0.0/28"

// ParseSources parses a comma-separated list of addresses and networks, all of whose
// addresses are used. Each must belong to this machine.
func ParseSources(text string) ([]netip.Addr, error) {
	var all []netip.Addr
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		network, err := netip.ParsePrefix(part)
		if err != nil {
			addr, err := netip.ParseAddr(part)
			if err != nil {
				return nil, fmt.Errorf("%q is not an address", part)
			}
			network = netip.PrefixFrom(addr, addr.BitLen())
		}
		for a := network.Masked().Addr(); network.Contains(a); a = a.Next() {
			if len(all) == sourcesMax {
				return nil, fmt.Errorf("has more than %d addresses", sourcesMax)
			}
			if err := ownAddress(a); err != nil {
				return nil, err
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// ownAddress checks that connections may start from a, by asking the kernel.
func ownAddress(a netip.Addr) error {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return fmt.Errorf("has %s, from which this machine cannot connect: %w", a, err)
	}
	return c.Close()
}

// chooseSources returns the addresses from which connections to target ("host:port") start; none
// leaves the choice to the kernel. Between two addresses there can be only as many connections as
// one has ports. If a loopback target needs more, further addresses of 127.0.0.0/8 are used,
// which all belong to this machine. They suffice for all shards, which then are on this machine
// too. connections is 0 if their number was not given.
func chooseSources(given []netip.Addr, target string, connections, shards int) ([]netip.Addr, error) {
	to, err := netip.ParseAddrPort(target)
	if err != nil {
		return nil, fmt.Errorf("read the target's address: %w", err)
	}
	ports := portsOf(portRangeFile)
	sources, most := given, ports
	if len(given) > 0 {
		sources = slices.DeleteFunc(slices.Clone(given),
			func(a netip.Addr) bool { return a.Unmap().Is4() != to.Addr().Unmap().Is4() })
		if len(sources) == 0 {
			return nil, strict.Fault{Path: "limiterUrl", Message: fmt.Sprintf(
				"has the address %s, which cannot be reached from %s (SOURCE_ADDRESSES)", to.Addr(), given[0])}
		}
		most = ports * len(sources)
	} else if a := to.Addr().Unmap(); a.Is4() && a.IsLoopback() {
		return loopbackSources(connections*shards, ports), nil
	}
	if connections > most {
		return nil, strict.Fault{Path: "concurrency", Message: fmt.Sprintf(
			"must be at most %d, because two addresses have ports for %d connections between them, is %d; SOURCE_ADDRESSES "+
				"can name more addresses",
			most, ports, connections)}
	}
	return sources, nil
}

// loopbackSources returns enough addresses for the given number of connections, or none
// if one address is enough. At most two fifths of the ports of each are used: the kernel
// assigns those of one parity first, and after that takes milliseconds to find another
// one. 19,500 connections from one address cost 8 s of CPU time, from two 1.5 s.
func loopbackSources(connections, ports int) []netip.Addr {
	each := max(1, ports*2/5)
	if connections <= each {
		return nil
	}
	var all []netip.Addr
	for a := netip.AddrFrom4([4]byte{127, 0, 0, 1}); len(all)*each < connections && len(all) < sourcesMax; a = a.Next() {
		all = append(all, a)
	}
	return all
}

func portsOf(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return portsUsual
	}
	var low, high int
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil || high < low {
		return portsUsual
	}
	return high - low + 1
}
