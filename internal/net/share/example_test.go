package share_test

import (
	"fmt"
	"net/netip"

	"weir/internal/net/share"
)

// A client cannot enlarge its share with further addresses of its network.
func Example() {
	var places share.Usage
	for i := range 10 {
		c := share.ClientOf(netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 15: byte(i)}))
		if places.Admits(c, 1, 10) {
			places.Add(c, 1)
		}
	}
	other := share.ClientOf(netip.MustParseAddr("192.0.2.1"))
	fmt.Println(places.Total(), places.Clients(), places.Admits(other, 2, 10))
	// Output: 5 1 true
}
