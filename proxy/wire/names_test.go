package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
)

// instances starts targets on addresses of the loopback network, all on one port.
// Each answers with its address.
func instances(t *testing.T, ips ...string) (all map[string]*fakeTarget, port string) {
	t.Helper()
	addr := testkit.FreeAddr(t)
	all = make(map[string]*fakeTarget)
	_, port, _ = net.SplitHostPort(addr)
	for _, ip := range ips {
		all[ip] = newMemberAt(t, ip, net.JoinHostPort(ip, port))
	}
	return all, port
}

// startNamed runs a proxy over one loop whose target is http://svc.test:port, and
// which looks it up all the time.
func startNamed(t *testing.T, port string, lookup roster.LookupFunc, env ...string) *rig {
	t.Helper()
	return startWith(t, func(c *Config) { c.Roster.Lookup = lookup }, "http://svc.test:"+port,
		append(env, "EVENT_LOOPS", "1", "TARGET_BALANCE", "round_robin", "TARGET_DNS_INTERVAL", "2ms")...)
}

// addressed waits until the targets are these addresses.
func (r *rig) addressed(port string, ips ...string) {
	r.t.Helper()
	want := make([]string, len(ips))
	for i, ip := range ips {
		want[i] = net.JoinHostPort(ip, port)
	}
	r.until(fmt.Sprintf("the targets are %v", want), func() bool {
		var got []string
		for _, st := range r.Targets.Status() {
			if st.URL != "http://svc.test:"+port {
				r.t.Errorf("a target has URL %s", st.URL)
			}
			got = append(got, st.Address)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// Each address of a name gets its share of the requests, with the name in Host.
func TestEachAddressIsATarget(t *testing.T) {
	all, port := instances(t, "127.0.0.2", "127.0.0.3", "127.0.0.4")
	dns := testkit.NewNameServer(t, "svc.test", "127.0.0.2 127.0.0.3 127.0.0.4")
	r := startNamed(t, port, dns.Resolver().LookupNetIP, "HOST_HEADER", "target")
	r.addressed(port, "127.0.0.2", "127.0.0.3", "127.0.0.4")
	r.targets = all
	r.playf(`
		30 x GET / -> 200 X-Host=svc.test:%s
		127.0.0.2 served 10; 127.0.0.3 served 10; 127.0.0.4 served 10
		127.0.0.3 stops # each has a health of its own
		6 x GET / -> 200`, port)
	for _, st := range r.Targets.Status() {
		equal(t, st.Address+" is down", st.Status == "down", strings.HasPrefix(st.Address, "127.0.0.3:"))
	}
}

// A name that moves is followed while requests come, and none is lost.
func TestNameMoves(t *testing.T) {
	all, port := instances(t, "127.0.0.2", "127.0.0.3")
	dns := testkit.NewNameServer(t, "svc.test", "127.0.0.2")
	r := startNamed(t, port, dns.Resolver().LookupNetIP)
	r.addressed(port, "127.0.0.2")
	_, end := r.load(4, func(_ int, c *testkit.Conn) bool { c.Ask(get, 200); return !t.Failed() })
	for i := range 20 {
		ip := []string{"127.0.0.3", "127.0.0.2"}[i%2]
		dns.SetAnswers(testkit.NoError, ip)
		r.addressed(port, ip)
	}
	end()
	if all["127.0.0.3"].served.Load() == 0 {
		t.Error("the new address got no request")
	}
	r.until("no connection stays on the address that left", func() bool { return all["127.0.0.3"].open() == 0 })
}

// Lookups that fail or find nothing change nothing, and are logged once.
func TestLookupsFail(t *testing.T) {
	all, port := instances(t, "127.0.0.2")
	for _, test := range []struct {
		name, result string
		code         byte
	}{
		{"the server fails", "failed", testkit.ServFail},
		{"there is no such name", "empty", testkit.NXDomain},
		{"there is no address", "empty", testkit.NoError},
	} {
		t.Run(test.name, func(t *testing.T) {
			dns := testkit.NewNameServer(t, "svc.test", "127.0.0.2")
			r := startNamed(t, port, dns.Resolver().LookupNetIP)
			r.addressed(port, "127.0.0.2")
			dns.SetAnswers(test.code, "")
			r.playf(`until upstream_lookups_total{result=%q}>=5`, test.result)
			r.addressed(port, "127.0.0.2")
			r.play(`GET / -> 200`)
			dns.SetAnswers(testkit.NoError, "127.0.0.2")
			r.play(`logged "resolves again"; logged 1 "A target's name does not resolve"`)
		})
	}
	equal(t, "requests", all["127.0.0.2"].served.Load(), 3)
}

// While one family cannot be looked up its addresses stay.
func TestOneFamilyFails(t *testing.T) {
	_, port := instances(t, "127.0.0.2", "::1")
	var failing atomic.Bool
	var looked atomic.Int64
	r := startNamed(t, port, func(_ context.Context, network, _ string) ([]netip.Addr, error) {
		if network == "ip4" {
			looked.Add(1)
			return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
		}
		if failing.Load() {
			return nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
		}
		return []netip.Addr{netip.MustParseAddr("::1")}, nil
	})
	r.addressed(port, "127.0.0.2", "::1")
	failing.Store(true)
	since := looked.Load()
	r.until("it was looked up often", func() bool { return looked.Load() > since+5 })
	r.addressed(port, "127.0.0.2", "::1")
}

// The listener waits for no lookup. Requests before the first answer get an error
// of their own.
func TestFirstLookup(t *testing.T) {
	_, port := instances(t, "127.0.0.2")
	dns, answered := testkit.NewNameServer(t, "svc.test", "127.0.0.2"), make(chan bool)
	r := startNamed(t, port, func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		await(t, answered)
		return dns.Resolver().LookupNetIP(ctx, network, host)
	}, "TARGET_CONNECT_TIMEOUT", "1s")
	r.play(`GET / -> 502|503|504 "\"error\":\"the target"`)
	close(answered)
	r.addressed(port, "127.0.0.2")
	r.play(`GET / -> 200`)
}

// Names are looked up at once when the proxy starts and when the list of targets
// changes, however long the interval.
func TestLookupAtOnce(t *testing.T) {
	_, port := instances(t, "127.0.0.2", "127.0.0.3")
	addrs := map[string]string{"svc.test": "127.0.0.2", "other.test": "127.0.0.3"}
	r := startNamed(t, port, func(_ context.Context, network, host string) ([]netip.Addr, error) {
		if network == "ip6" {
			return nil, &net.DNSError{IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr(addrs[host])}, nil
	}, "TARGET_DNS_INTERVAL", "1h")
	r.addressed(port, "127.0.0.2")
	r.Targets.Set([]*roster.Target{{URL: "http://svc.test:" + port, Addr: "other.test:" + port, Host: "x"}})
	r.addressed(port, "127.0.0.3")
}

// A name that stays in a new list keeps its addresses, and they their connections, also
// while lookups fail.
func TestListChangesWhileLookupsFail(t *testing.T) {
	all, port := instances(t, "127.0.0.2")
	dns := testkit.NewNameServer(t, "svc.test", "127.0.0.2")
	r := startNamed(t, port, dns.Resolver().LookupNetIP)
	r.addressed(port, "127.0.0.2")
	r.play(`GET / -> 200`)
	dns.SetAnswers(testkit.ServFail, "")
	r.play(`until upstream_lookups_total{result="failed"}>=3`)
	r.Targets.Set([]*roster.Target{{URL: "http://svc.test:" + port, Addr: "svc.test:" + port, Host: "svc.test"}})
	r.addressed(port, "127.0.0.2")
	r.play(`b GET / -> 200`)
	equal(t, "connections for two requests", all["127.0.0.2"].opened.Load(), 1)
}

// addressesMax is how many addresses of a name are used.
const addressesMax = 128

// A name has at most so many addresses.
func TestTooManyAddresses(t *testing.T) {
	var many []netip.Addr
	for i := range addressesMax + 2 {
		many = append(many, netip.AddrFrom4([4]byte{127, 1, 0, byte(i)}))
	}
	var all atomic.Bool
	r := startNamed(t, "1", func(_ context.Context, network, _ string) ([]netip.Addr, error) {
		switch {
		case network == "ip6":
			return nil, &net.DNSError{IsNotFound: true}
		case all.Load():
			return many, nil
		}
		return many[:addressesMax], nil
	})
	r.until("there are as many as allowed", func() bool { return len(r.Targets.Status()) == addressesMax })
	r.metrics(`upstream_addresses_refused_total=0`)
	all.Store(true)
	r.play(`until upstream_addresses_refused_total>=4`)
	equal(t, "targets", len(r.Targets.Status()), addressesMax)
	r.play(`logged 1 "too many addresses"`)
}

// An address is asked for the certificate of the name, and must prove it.
func TestAddressProvesItsName(t *testing.T) {
	var asked atomic.Value
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		fmt.Fprint(w, "in secret")
	}))
	target.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		asked.Store(hello.ServerName)
		return nil, nil
	}}
	target.StartTLS()
	defer target.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(target.Certificate())
	_, port, _ := net.SplitHostPort(target.Listener.Addr().String())
	for name, want := range map[string]int{"example.com": 200, "elsewhere.test": 502} {
		t.Run(name, func(t *testing.T) {
			dns := testkit.NewNameServer(t, name, "127.0.0.1")
			r := startWith(t, func(c *Config) {
				c.Roster.Lookup = dns.Resolver().LookupNetIP
				c.Targets[0].Secure = &tls.Config{RootCAs: trusted, ServerName: name}
			}, "https://"+name+":"+port, "EVENT_LOOPS", "1", "TARGET_DNS_INTERVAL", "2ms")
			r.until("the name is found", func() bool { return r.Targets.Status()[0].Address == "127.0.0.1:"+port })
			r.playf(`GET / -> %d`, want)
			equal(t, "the target is asked for the certificate of", asked.Load(), any(name))
		})
	}
}
