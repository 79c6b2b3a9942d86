package callback_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred/callback"
)

func TestParseHosts(t *testing.T) {
	t.Parallel()
	f := func(text, fault string) {
		t.Helper()
		if _, err := callback.ParseHosts(text); fault == "" && err != nil || fault != "" &&
			(err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%q: %v, want %q", text, err, fault)
		}
	}
	f("a", "")
	f("hooks.example.com, Hooks.Example.com:8443,xn--bcher-kva.example", "")
	f("10.1.2.3, [::1]:8443,192.0.2.1:1", "")
	f("a=10.0.0.1,a=10.0.0.2, b:1=fd00::/8", "")
	f("", `"" is not a host`)
	f("a,,b", "is not a host")
	f("https://a", "is not a host")
	f("a/b", "is not a host")
	f("u@a", "is not a host")
	f("a b", "is not a host")
	f("*.example.com", "is neither a name nor an address")
	f("bücher.example", "is neither a name nor an address")
	f("127.1", "is neither a name nor an address")
	f("2130706433", "is neither a name nor an address")
	f("0x7f000001", "is neither a name nor an address")
	f("a.", "is neither a name nor an address")
	f("::1", "is not a host")
	f("a:", "has no port")
	f("a:0", "has no port")
	f("a:65536", "has no port")
	f("a:0443", "has no port")
	f("a=", "has no address or prefix after =")
	f("a=b", "has no address or prefix after =")
	f("a=10.0.0.1/8", "has no address or prefix after =")
	f("a,a:443", `"a:443" is given twice`)
	f("a=10.0.0.1,a", "is given twice")
	many := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, "h"+strings.Repeat("x", i))
		}
		return strings.Join(names, ",")
	}
	f(many(64), "")
	f(many(65), "has 65 hosts")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	hosts := testkit.Must(callback.ParseHosts("a.example,b.example:8443,[2001:db8::1],127.0.0.1"))(t)
	f := func(url, line, fault string) {
		t.Helper()
		got, err := hosts.Check(url)
		if fault == "" && (err != nil || got != line) || fault != "" &&
			(err == nil || !strings.HasPrefix(err.Error(), fault) ||
				!strings.HasSuffix(err.Error(), "; allowed are https URLs of the hosts that this proxy is set to call back")) {
			t.Errorf("%q: %q, %v; want %q, %q", url, got, err, line, fault)
		}
	}
	f("https://a.example", "a.example:443", "")
	f("HTTPS://A.Example:443/x?y=z", "a.example:443", "")
	f("https://b.example:8443/x", "b.example:8443", "")
	f("https://[2001:db8::1]/", "[2001:db8::1]:443", "")
	f("https://127.0.0.1/", "127.0.0.1:443", "")
	f("https://a.example/"+strings.Repeat("a", 2048-18), "a.example:443", "")
	f("https://a.example/"+strings.Repeat("a", 2048-17), "", "is longer than 2048 characters")
	f("", "", "is not https")
	f("a.example", "", "is not https")
	f("//a.example/", "", "is not https")
	f("http://a.example/", "", "is not https")
	f("ftp://a.example/", "", "is not https")
	f("https:a.example", "", "has a host that is not listed")
	f("https:///a.example", "", "has a host that is not listed")
	f("https://u@a.example/", "", "has a user")
	f("https://u:p@a.example/", "", "has a user")
	f("https://@a.example/", "", "has a user")
	f("https://a.example@127.0.0.1/", "", "has a user")
	f("https://a.example/#f", "", "has a fragment")
	f("https://a.example/#", "", "has a fragment")
	f("https://a.example/a b", "", "is not a URL")
	f("https://a.example/\x00", "", "is not a URL")
	f("https://a.example\\@evil.example/", "", "is not a URL")
	f("https://a.example:/", "", "has no port")
	f("https://a.example:8443/", "", "has a host that is not listed")
	f("https://b.example/", "", "has a host that is not listed")
	f("https://a.example./", "", "has a host that is not listed")
	f("https://xa.example/", "", "has a host that is not listed")
	f("https://a.example.evil.example/", "", "has a host that is not listed")
	f("https://[::ffff:127.0.0.1]/", "", "has a host that is not listed")
	f("https://[::1]/", "", "has a host that is not listed")
	f("https://127.1/", "", "has a host that is not listed")
	f("https://2130706433/", "", "has a host that is not listed")
	f("https://169.254.169.254/", "", "has a host that is not listed")
}

// What is dialled for a host is a public address, or one of those that are listed for it.
func TestPermits(t *testing.T) {
	t.Parallel()
	hosts := testkit.Must(callback.ParseHosts("a,b=10.1.0.0/16,b=fd00::1,c=0.0.0.0/0,[::1],127.0.0.1"))(t)
	f := func(host string, want bool, addrs ...string) {
		t.Helper()
		for _, a := range addrs {
			if err := hosts.Permits(host+":443", netip.MustParseAddr(a)); (err == nil) != want {
				t.Errorf("%s at %s: %v", host, a, err)
			}
		}
	}
	f("a", true, "1.1.1.1", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "223.255.255.255",
		"2606:4700::1111", "2001:200::1",
		"::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1")
	f("a", false, "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.0.1", "169.254.169.254",
		"172.16.0.1", "172.31.255.255",
		"192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
		"239.255.255.255", "240.0.0.1", "255.255.255.255")
	f("a", false, "::", "::1", "fe80::1", "fe80::1%eth0", "2606:4700::1111%eth0", "fc00::1", "fd00::1", "ff02::1",
		"fec0::1", "100::1", "2001::1", "2001:db8::1", "3fff::1",
		"::127.0.0.1", "::1.1.1.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::127.0.0.1",
		"64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254",
		"64:ff9b:1::1.1.1.1", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002:a00:1::")
	f("b", true, "10.1.2.3", "::ffff:10.1.2.3", "fd00::1")
	f("b", false, "10.2.0.1", "1.1.1.1", "fd00::2", "fd00::1%eth0", "127.0.0.1")
	f("c", true, "127.0.0.1", "1.1.1.1")
	f("c", false, "::1")
	f("[::1]", true, "::1")
	f("[::1]", false, "127.0.0.1", "1.1.1.1")
	f("127.0.0.1", true, "127.0.0.1", "::ffff:127.0.0.1")
	f("127.0.0.1", false, "127.0.0.2")
	f("d", false, "1.1.1.1")
	if hosts.Permits("a:443", netip.Addr{}) == nil {
		t.Error("no address is permitted")
	}
}

// The callbacks under way leave room for other deliveries.
func TestParallel(t *testing.T) {
	t.Parallel()
	for hosts, want := range map[string]int{"a": 16, "a,b,c,d,e,f,g,h": 16, "a,b,c,d,e,f,g,h,i": 14} {
		if h, err := callback.ParseHosts(hosts); err != nil || h.Parallel() != want {
			t.Errorf("%s: %d, %v; want %d", hosts, h.Parallel(), err, want)
		}
	}
}

// The vector is that of the libraries of Standard Webhooks.
func TestSign(t *testing.T) {
	t.Parallel()
	s := testkit.Must(callback.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))(t)
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := s.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 999),
		[]byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	f := func(text, fault string) {
		t.Helper()
		if s, err := callback.ParseSecret(text); fault == "" && (err != nil || len(s) != 24) || fault != "" &&
			(err == nil || err.Error() != fault) {
			t.Errorf("%q: %d bytes, %v; want %q", text, len(s), err, fault)
		}
	}
	f(strings.Repeat("a", 24), "")
	f(strings.Repeat("a", 23), "has 23 bytes")
	f("whsec_"+strings.Repeat("AAAA", 8), "")
	f("whsec_"+strings.Repeat("AAAA", 7)+"AAA=", "has 23 bytes")
	f("whsec_"+strings.Repeat("A", 31), "has no base64 after whsec_")
	f("", "has 0 bytes")
}
