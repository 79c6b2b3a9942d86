package exchange

import (
	"net/netip"
	"strings"
	"testing"

	"weir/internal/net/http1"
)

// TestClientAddress finds the client behind trusted proxies.
func TestClientAddress(t *testing.T) {
	stranger, friend := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("198.51.100.9")
	env := &Env{Settings: &Settings{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}}}
	at := func(remote netip.Addr) *Exchange {
		x := New(env, remote, false)
		return &x
	}
	for _, test := range []struct {
		fields string // lines of X-Forwarded-For
		want   string
	}{
		{"", "198.51.100.9"},
		{"192.0.2.1", "192.0.2.1"},
		{"6.6.6.6, 192.0.2.1", "192.0.2.1"},
		{"6.6.6.6|192.0.2.1", "192.0.2.1"},
		{"6.6.6.6,192.0.2.1,198.51.100.1|198.51.100.2 , 198.51.100.3", "192.0.2.1"},
		{"198.51.100.1, 198.51.100.2", "198.51.100.1"},
		{"192.0.2.1:5678", "192.0.2.1"},
		{"192.0.2.1:5678, 198.51.100.2:443", "192.0.2.1"},
		{"192.0.2.1:_hidden", "192.0.2.1"},
		{"2001:db8::1", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"[2001:db8::1]:5678", "2001:db8::1"},
		{`"[2001:db8::1]:5678"`, "2001:db8::1"},
		{`"192.0.2.1"`, "192.0.2.1"},
		{`"192.0.2.1:80",` + "\t" + `"198.51.100.2"`, "192.0.2.1"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"[::ffff:192.0.2.1]:80", "192.0.2.1"},
		{"fe80::1%eth0", "fe80::1"},
		{"192.0.2.1,", "192.0.2.1"},
		{"192.0.2.1,|, ,", "192.0.2.1"},
		// What is no address hides what stands left of it.
		{"192.0.2.1, unknown", "198.51.100.9"},
		{"192.0.2.1, unknown, 198.51.100.2", "198.51.100.2"},
		{"192.0.2.1, _hidden:80", "198.51.100.9"},
		{`192.0.2.1, "`, "198.51.100.9"},
		{`192.0.2.1, ""`, "198.51.100.9"},
		{"192.0.2.1, [", "198.51.100.9"},
		{"192.0.2.1, []", "198.51.100.9"},
		{"192.0.2.1, [192.0.2.2", "198.51.100.9"},
		{"192.0.2.1, [2001:db8::1]80", "198.51.100.9"},
		{"192.0.2.1, :80", "198.51.100.9"},
		{"192.0.2.1, for=192.0.2.2", "198.51.100.9"},
	} {
		in := "GET / HTTP/1.1\r\nHost: x\r\n"
		for line := range strings.SplitSeq(test.fields, "|") {
			in += "X-Forwarded-For: " + line + "\r\n"
		}
		var head http1.Head
		reader := http1.NewRequestReader(nil)
		if ev, err := reader.Next([]byte(in+"\r\n"), &head); ev.Kind != http1.HeadDone {
			t.Fatal(err)
		}
		if got := at(friend).clientOf(&head); got.String() != test.want {
			t.Errorf("%q: %v, want %s", test.fields, got, test.want)
		}
		if got := at(stranger).clientOf(&head); got != stranger {
			t.Errorf("%q of a stranger: %v", test.fields, got)
		}
	}
}

// clientOf is the client of the request in h.
func (x *Exchange) clientOf(h *http1.Head) netip.Addr {
	x.keepOrigin(h)
	return x.client
}
