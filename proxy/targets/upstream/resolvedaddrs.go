package upstream

import (
	"net/netip"
	"slices"
)

// absentMax is how many answers in a row must lack an address before it is removed:
// servers that rotate or truncate their answers omit one now and then.
const absentMax = 2

// A LookupResult is the result of one lookup of a name. If the lookup of a family failed, its
// addresses are unknown: neither present nor missing.
type LookupResult struct {
	Addrs    []netip.Addr
	Unknown4 bool
	Unknown6 bool
}

func (a *LookupResult) unknown(addr netip.Addr) bool {
	if addr.Is4() {
		return a.Unknown4
	}
	return a.Unknown6
}

// ResolvedAddrs computes the addresses of a name from the answers of successive lookups. An
// address joins with the first answer that has it, and leaves with the second answer in a
// row that lacks it. Answers without any address change nothing, nor do failed lookups:
// an error of a name server must not remove targets.
//
// Owned by the goroutine that looks the name up.
type ResolvedAddrs struct {
	most int
	list []member
}

type member struct {
	addr   netip.Addr
	absent int // answers in a row without it
}

// NewResolvedAddrs returns ResolvedAddrs with no addresses, and a bound on their number.
func NewResolvedAddrs(most int) *ResolvedAddrs { return &ResolvedAddrs{most: most} }

// Answered records an answer. It reports whether the addresses have changed, and how many
// exceeded the bound.
func (m *ResolvedAddrs) Answered(a LookupResult) (changed bool, refused int) {
	if len(a.Addrs) == 0 {
		return false, 0
	}
	before := len(m.list)
	m.list = slices.DeleteFunc(m.list, func(one member) bool {
		return !slices.Contains(a.Addrs, one.addr) && !a.unknown(one.addr) && one.absent+1 >= absentMax
	})
	changed = len(m.list) < before
	for i := range m.list {
		one := &m.list[i]
		switch {
		case slices.Contains(a.Addrs, one.addr):
			one.absent = 0
		case !a.unknown(one.addr):
			one.absent++
		}
	}
	for i, addr := range a.Addrs {
		switch {
		case slices.Contains(a.Addrs[:i], addr) ||
			slices.ContainsFunc(m.list, func(one member) bool { return one.addr == addr }):
		case len(m.list) >= m.most:
			refused++
		default:
			m.list = append(m.list, member{addr: addr})
			changed = true
		}
	}
	return changed, refused
}

// Addrs returns the addresses in the order in which they joined. There are none before
// the first answer that has some.
func (m *ResolvedAddrs) Addrs() []netip.Addr {
	addrs := make([]netip.Addr, len(m.list))
	for i := range m.list {
		addrs[i] = m.list[i].addr
	}
	return addrs
}
