package session

import (
	"net/netip"
	"strings"
	"testing"

	"weir/proxy/rules/keys"
)

// Addresses of tests: a client, and a proxy of TRUSTED_PROXIES.
var (
	stranger = netip.MustParseAddr("192.0.2.7")
	friend   = netip.MustParseAddr("198.51.100.9")
)

// seenBy is what the target is sent of a request from an address: its field
// lines but for the proxy's Via. Names with underscores are kept if they may be.
func seenBy(t *testing.T, from netip.Addr, fields string) (seen string, disbelieved int) {
	t.Helper()
	b := newBench(t, 1<<32)
	b.env.Settings.Underscores = true
	b.s = newPair(b.now, &b.env, from, false)
	b.s.HandleClient(b.now, []byte("GET / HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n"))
	disbelieved = b.s.Effects(b.now).Claims
	b.s.Exchange.HandleAcquired(b.now, true)
	fx := b.s.Effects(b.now)
	sent, ok := strings.CutPrefix(string(fx.Upstream), "GET / HTTP/1.1\r\nHost: x\r\n")
	if !ok || !strings.HasSuffix(sent, "Via: 1.1 weir\r\n\r\n") {
		t.Fatalf("the target is sent %q", sent)
	}
	return strings.TrimSuffix(sent, "Via: 1.1 weir\r\n\r\n"), disbelieved
}

// TestOrigin tests what the target receives about the origin of a request, whatever the client
// claims.
func TestOrigin(t *testing.T) {
	const fromStranger = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: x\r\n"
	const fromFriend = "X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: x\r\n"
	const told = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: y\r\nX-Forwarded-Port: 443\r\n"
	for _, test := range []struct {
		name    string
		from    netip.Addr
		sent    string
		seen    string
		dropped int
	}{
		{"nothing claimed", stranger, "", fromStranger, 0},
		{"the address", stranger, "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n",
			fromStranger, 3},
		{"protocol, host and port", stranger, told, fromStranger, 3},
		{"the URL", stranger, "X-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\n", fromStranger, 2},
		{"several lines", stranger, "X-Real-IP: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nX-Real-IP: " +
			"6.6.6.7\r\nX-Forwarded-For: 6.6.6.7\r\n", fromStranger, 4},
		{"a list", stranger, "X-Forwarded-For: 6.6.6.6, 198.51.100.9\r\n", fromStranger, 1},
		{"in other letters", stranger, "x-forwarded-for: 6.6.6.6\r\nX-FORWARDED-PROTO: https\r\nx-ReAl-Ip: 6.6.6.6\r\n",
			fromStranger, 3},
		{"look-alikes with _", stranger,
			"X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Proto: https\r\nX_REAL_IP: 6.6.6.6\r\n_X-Real-IP: 1\r\n",
			"_X-Real-IP: 1\r\n" + fromStranger, 3},
		{"look-alikes with other signs", stranger, "X.Forwarded.For: 6.6.6.6\r\nX-Real!IP: 6.6.6.6\r\n", fromStranger, 2},
		{"names of a family that nobody knows", stranger,
			"X-Forwarded-Anything: 1\r\nX-Forwarded-: 1\r\nX_Forwarded_A_B: 1\r\nX-SSL-Client-Verify: SUCCESS\r\n",
			fromStranger, 4},
		{"names that only resemble them", stranger,
			"X-Forwarded: 1\r\nX-Forward: 1\r\nXX-Forwarded-For: 1\r\nReal-IP: 1\r\n",
			"X-Forward: 1\r\nXX-Forwarded-For: 1\r\nReal-IP: 1\r\n" + fromStranger, 1},
		{"Connection names what the proxy sets", stranger,
			"Connection: X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, Via, Host\r\n", fromStranger, 0},
		{"Connection names a claim", stranger,
			"Connection: X-Real-IP, close\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\n", fromStranger, 2},
		{"a claim of nothing", stranger, "X-Forwarded-For:\r\nX-Real-IP: \t \r\n", fromStranger, 2},
		{"what sets HTTP_PROXY", stranger, "Proxy: http://6.6.6.6/\r\n", fromStranger, 1},

		{"trusted: nothing claimed", friend, "", fromFriend, 0},
		{"trusted: the list goes on", friend, "X-Forwarded-For: 6.6.6.6\r\n",
			strings.Replace(fromFriend, "198", "6.6.6.6, 198", 1), 0},
		{"trusted: lines become one", friend,
			"X-Forwarded-For: 6.6.6.6\r\nAccept: a\r\nx-forwarded-for: 6.6.6.7,6.6.6.8\r\nX-Forwarded-For: unknown\r\n",
			"Accept: a\r\n" + strings.Replace(fromFriend, "198", "6.6.6.6, 6.6.6.7,6.6.6.8, unknown, 198", 1), 0},
		{"trusted: empty lines are none", friend, "X-Forwarded-For:\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: \r\n",
			strings.Replace(fromFriend, "198", "6.6.6.6, 198", 1), 0},
		{"trusted: what it says stands", friend,
			told + "X-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Original-URL: /a\r\n",
			told + "X-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Original-URL: /a\r\nX-Forwarded-For: " +
				"6.6.6.6, 198.51.100.9\r\n", 0},
		{"trusted: only Forwarded", friend, "Forwarded: for=\"[2001:db8::1]:80\";proto=https\r\n",
			"Forwarded: for=\"[2001:db8::1]:80\";proto=https\r\n" +
				"X-Forwarded-For: 2001:db8::1, 198.51.100.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: x\r\n", 0},
		{"trusted: only X-Real-IP", friend, "X-Real-IP: 6.6.6.6\r\n",
			"X-Real-IP: 6.6.6.6\r\n" + strings.Replace(fromFriend, "198", "6.6.6.6, 198", 1), 0},
		{"trusted: a list and Forwarded", friend, "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.7;proto=https\r\n",
			"Forwarded: for=6.6.6.7;proto=https\r\n" +
				"X-Forwarded-For: 6.6.6.6, 198.51.100.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: x\r\n", 0},
		{"trusted: two protocols", friend, "X-Forwarded-Proto: http\r\nForwarded: proto=https\r\n",
			"X-Forwarded-Proto: http\r\nForwarded: proto=https\r\n" +
				"X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-Host: x\r\n", 0},
		{"a protocol in Forwarded", stranger, "Forwarded: for=6.6.6.6;proto=https\r\n", fromStranger, 1},
		{"trusted: it says a part", friend, "X-Forwarded-Proto: https\r\n",
			"X-Forwarded-Proto: https\r\nX-Forwarded-For: 198.51.100.9\r\nX-Forwarded-Host: x\r\n", 0},
		{"trusted: a client had it pass on a look-alike", friend,
			"X_Forwarded_For: 6.6.6.6\r\nX-Real_IP: 6.6.6.6\r\nX.Forwarded.Proto: https\r\n", fromFriend, 0},
		{"trusted: a client had it pass on a Connection field", friend,
			"Connection: X-Forwarded-For, X-Forwarded-Proto, X-Real-IP, X-Own\r\nX-Forwarded-For: " +
				"6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Real-IP: 6.6.6.6\r\nX-Own: 1\r\n",
			"X-Forwarded-Proto: https\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6, " +
				"198.51.100.9\r\nX-Forwarded-Host: x\r\n", 0},
		{"trusted: as IPv4 in IPv6", netip.MustParseAddr("::ffff:198.51.100.9"), "X-Forwarded-For: 6.6.6.6\r\n",
			strings.Replace(fromFriend, "198", "6.6.6.6, 198", 1), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if seen, dropped := seenBy(t, test.from, test.sent); seen != test.seen || dropped != test.dropped {
				t.Errorf("the target sees\n%s\nwant\n%s\nclaims dropped: %d, want %d", seen, test.seen, dropped, test.dropped)
			}
		})
	}
}

// A claim is one in any letters and in the spelling of variables, and only
// trusted proxies may make it.
func TestClaims(t *testing.T) {
	for _, name := range []string{"X-Real-IP", "X-Forwarded-Some-Thing", "CF-Connecting-IP", "X-Original-URL",
		"Client-Cert", "Proxy"} {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name),
			strings.ReplaceAll(name, "-", "_")} {
			field := spelling + ": claimed\r\n"
			if seen, dropped := seenBy(t, stranger, field); strings.Contains(seen, "claimed") || dropped != 1 {
				t.Errorf("%s of a stranger: the target sees %q, %d dropped", spelling, seen, dropped)
			}
			passes := !strings.Contains(spelling, "_")
			if seen, dropped := seenBy(t, friend, field); strings.Contains(seen, "claimed") != passes || dropped != 0 {
				t.Errorf("%s of a trusted proxy: the target sees %q, %d dropped", spelling, seen, dropped)
			}
		}
	}
}

// TestMoreClaims has names beside the usual ones.
func TestMoreClaims(t *testing.T) {
	b := newBench(t, 1)
	var err error
	if b.env.Settings.ForwardingFields, err = keys.NewForwardingFields([]string{"X-Remote-User", "X-Auth-*", "Connection",
		"Host"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"x-remote-user": true, "X_Remote_User": true, "X-Remote-Users": false,
		"X-Auth-Request-Email": true, "X-Auth": false,
		"X-Forwarded-For": true, strings.Repeat("X-Auth-", 20): true, strings.Repeat("X-Other", 20): false} {
		if got := b.env.Settings.ForwardingFields.Has([]byte(name)); got != want {
			t.Errorf("%s is a claim: %t", name, got)
		}
	}
	// What belongs to one connection never passes, whoever sends it.
	b.s = newPair(b.now, &b.env, friend, false)
	b.s.HandleClient(b.now, []byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Remote-User\r\nX-Remote-User: a\r\n\r\n"))
	b.s.Exchange.HandleAcquired(b.now, true)
	if sent := string(b.s.Effects(b.now).Upstream); strings.Contains(sent, "Connection") ||
		strings.Count(sent, "\r\nHost: ") != 1 || !strings.Contains(sent, "X-Remote-User: a") {
		t.Errorf("the target is sent %q", sent)
	}
}

// With underscores wanted, a look-alike of the request id does not pass either.
func TestLookAlikeOfRequestID(t *testing.T) {
	b := newBench(t, 10)
	b.env.Settings.RequestID, b.env.Settings.Underscores = true, true
	b.s.HandleClient(b.now, []byte("GET / HTTP/1.1\r\nHost: x\r\nX_Request_Id: forged\r\nX_Other: 1\r\n\r\n"))
	b.s.Effects(b.now)
	b.s.Exchange.HandleAcquired(b.now, true)
	if up := string(b.s.Effects(b.now).Upstream); strings.Contains(up, "forged") || !strings.Contains(up, "X_Other: 1") {
		t.Errorf("%s", up)
	}
}

// A page of another origin may read the id of a refusal.
func TestRequestIDIsExposed(t *testing.T) {
	b := newBench(t, 1)
	b.env.Settings.RequestID, b.env.Settings.CORS = true, true
	b.env.Policy().Limit.Take(b.now.UnixMicro(), &b.state, 1, 1)
	b.s.HandleClient(b.now, []byte("GET / HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n\r\n"))
	if got := string(b.s.Effects(b.now).Client); !strings.HasPrefix(got, "HTTP/1.1 429 ") ||
		!strings.Contains(got, ", X-Request-Id\r\n") {
		t.Errorf("%s", got)
	}
}

// A request is delivered later with the id that it had when it was stored. Its client does not
// choose that.
func TestStoredRequestID(t *testing.T) {
	for client, trusted := range map[netip.Addr]bool{netip.MustParseAddr("192.0.2.7"): false, friend: true} {
		p := newStoring(t)
		p.env.Defers = true
		s := newPair(p.now, &p.env, client, false)
		s.HandleClient(p.now, []byte("POST / HTTP/1.1\r\nHost: x\r\nX-Request-Id: forged\r\n\r\n"))
		id := string(s.Exchange.RequestID())
		if head := string(s.Effects(p.now).Store.Fields()); strings.Count(head, "X-Request-Id:") != 1 ||
			!strings.Contains(head, "X-Request-Id: "+id) || (id == "forged") != trusted {
			t.Errorf("%v has the id %s, and is stored as %q", client, id, head)
		}
	}
}

// Older proxies stored the id that the client had sent before the one that the request had.
func TestStoredRequestIDIsTheLast(t *testing.T) {
	p := newStoring(t)
	p.env.Delivery, p.limit = true, "allow"
	s := newPair(p.now, &p.env, netip.MustParseAddr("192.0.2.7"), false)
	s.HandleClient(p.now,
		[]byte("POST / HTTP/1.1\r\nHost: x\r\nX-Request-Id: forged\r\nX-Request-Id: own\r\nContent-Length: 0\r\n\r\n"))
	if id := string(s.Exchange.RequestID()); id != "own" {
		t.Errorf("a delivery has the id %s", id)
	}
}
