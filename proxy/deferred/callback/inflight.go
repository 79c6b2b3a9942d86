package callback

import (
	"net/netip"
	"strings"

	"weir/internal/net/share"
)

// ReceiverKey returns the key of the line for the callbacks to a receiver that one client has
// requested. receiver is what [Hosts.Check] returns.
func ReceiverKey(receiver string, c share.Client) string { return receiver + " " + c.String() }

// ParseReceiverKey returns receiver and client of the key of a line. The client is the zero one if it is unknown.
func ParseReceiverKey(line string) (receiver string, c share.Client) {
	receiver, client, _ := strings.Cut(line, " ")
	address, _, _ := strings.Cut(client, "/")
	addr, _ := netip.ParseAddr(address) // invalid: unknown
	return receiver, share.ClientOf(addr)
}

// InFlight are the places for callbacks in progress at each receiver. Its clients share them: one
// takes at most half, so a receiver that is slow for one of them is not slow for all.
//
// Owned by the owner of what is shared.
type InFlight struct {
	most int64
	by   map[string]*share.Usage // by receiver; those with callbacks in progress
}

// NewInFlight returns places for the given number of callbacks at each receiver.
func NewInFlight(most int) *InFlight {
	return &InFlight{most: int64(most), by: make(map[string]*share.Usage)}
}

// Acquire takes a place in a line, and reports whether there is one.
func (f *InFlight) Acquire(line string) bool {
	receiver, c := ParseReceiverKey(line)
	held := f.by[receiver]
	if held == nil {
		held = new(share.Usage)
		f.by[receiver] = held
	}
	ok := held.Admits(c, 1, f.most)
	if ok {
		held.Add(c, 1)
	}
	return ok
}

// Release gives a place back.
func (f *InFlight) Release(line string) {
	receiver, c := ParseReceiverKey(line)
	held := f.by[receiver]
	held.Add(c, -1)
	if held.Total() == 0 {
		delete(f.by, receiver)
	}
}

// Clients returns how many clients have places at the receiver of a line.
func (f *InFlight) Clients(line string) int {
	receiver, _ := ParseReceiverKey(line)
	if held := f.by[receiver]; held != nil {
		return held.Clients()
	}
	return 0
}
