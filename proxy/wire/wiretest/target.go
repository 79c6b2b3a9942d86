package wiretest

import (
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"weir/internal/net/loop/looptest"
	"weir/proxy/targets/roster"
)

// connectTimeout bounds connecting to a target.
const connectTimeout = time.Second

// A target is one target.
//
// Owned by its world.
type target struct {
	spec    *roster.Target
	refuses bool // it refuses connections
}

// addTarget adds a target to the list.
func (w *World) addTarget() {
	w.made = w.made%250 + 1
	addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(w.made)}), 80).String()
	w.targets = append(w.targets, &target{spec: &roster.Target{URL: "http://" + addr, Addr: addr, Host: addr}})
}

// Targets returns the list.
func (w *World) Targets() (list []*roster.Target) {
	for _, t := range w.targets {
		list = append(list, t.spec)
	}
	return list
}

// reach connects to a target, which may fail.
func (w *World) reach(addr string) (*looptest.Socket, time.Duration, error) {
	took := w.Within(30 * time.Millisecond)
	i := slices.IndexFunc(w.targets, func(t *target) bool { return t.spec.Addr == addr })
	switch p := w.Profile.connects; {
	case i >= 0 && w.targets[i].refuses && !w.Quiet:
		return nil, took, syscall.ECONNREFUSED
	case w.Fault(p):
		return nil, connectTimeout, os.ErrDeadlineExceeded
	case w.Fault(p):
		return nil, took, syscall.ECONNRESET
	case w.Fault(p / 4):
		return nil, took, syscall.EADDRNOTAVAIL
	}
	s := w.socket("target ", netip.MustParseAddrPort(addr).Addr(), nil)
	sv := newService(w, s)
	s.Peer, w.services[s.Addr] = sv, sv
	return s, took, nil
}
