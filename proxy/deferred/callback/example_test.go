package callback_test

import (
	"fmt"
	"net/netip"

	"weir/proxy/deferred/callback"
)

// A listed host is called back over https only, and where it is.
func Example() {
	hosts, _ := callback.ParseHosts("hooks.example.com, intern.example.com:8443=10.1.0.0/16")
	for _, url := range []string{"https://hooks.example.com/paid", "http://hooks.example.com/paid", "https://localhost/"} {
		fmt.Println(hosts.Check(url))
	}
	fmt.Println(hosts.Permits("hooks.example.com:443", netip.MustParseAddr("10.1.2.3")))
	fmt.Println(hosts.Permits("intern.example.com:8443", netip.MustParseAddr("10.1.2.3")))
	// Output:
	// hooks.example.com:443 <nil>
	//  is not https; allowed are https URLs of the hosts that this proxy is set to call back
	//  has a host that is not listed; allowed are https URLs of the hosts that this proxy is set to call back
	// the address 10.1.2.3 is not public
	// <nil>
}
