package wire

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
)

// loginTarget authenticates connections, as servers with NTLM and Negotiate do:
// whoever has logged in is who asks on that connection until it ends.
//
//	NTLM hello USER      401 with a challenge that is good on this connection
//	NTLM answer USER     logs in, after hello
//	Negotiate USER       logs in at once
func loginTarget(c *targetConn) {
	user, challenged := "", ""
	for s := c.next(); s != nil; s = c.next() {
		credentials, _ := s.head.Value(http1.FieldAuthorization)
		scheme, rest, _ := strings.Cut(string(credentials), " ")
		step, name, _ := strings.Cut(rest, " ")
		answer, status := "", "401 Unauthorized\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: NTLM"
		switch {
		case s.target() == "/hangup":
			return
		case strings.EqualFold(scheme, "NTLM") && step == "hello":
			challenged, status = name, "401 Unauthorized\r\nWWW-Authenticate: NTLM challenge"
		case strings.EqualFold(scheme, "NTLM") && step == "answer" && name == challenged:
			user = name
		case strings.EqualFold(scheme, "Negotiate"):
			user = rest
		}
		if user != "" {
			answer, status = "hello "+user, "200 OK"
		}
		c.say(fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(answer), answer))
	}
}

func login(credentials string) string {
	return "GET /api HTTP/1.1\r\nHost: x\r\nAuthorization: " + credentials + "\r\n\r\n"
}

// logins are the ways to log in as a user; all but the last request of one are
// answered 401.
var logins = []struct {
	name  string
	steps []string
}{
	{"NTLM", []string{"NTLM hello %s", "NTLM answer %s"}},
	{"ntlm", []string{"ntlm hello %s", "nTLm answer %s"}},
	{"Negotiate", []string{"Negotiate %s"}},
}

func logIn(c *testkit.Conn, steps []string, user string) {
	c.T.Helper()
	for i := range steps {
		logInStep(c, steps, i, user)
	}
}

func logInStep(c *testkit.Conn, steps []string, i int, user string) {
	c.T.Helper()
	status, want := 401, ""
	if i == len(steps)-1 {
		status, want = 200, "hello "+user
	}
	if body := c.Ask(login(fmt.Sprintf(steps[i], user)), status); body != want {
		c.T.Errorf("%s is told %q", user, body)
	}
}

// A connection to the target on which a client logs in serves only that client, from the first
// step on, and stays with it.
func TestLoginIsNotInherited(t *testing.T) {
	for _, test := range logins {
		t.Run(test.name, func(t *testing.T) {
			target := newTarget(t, loginTarget)
			r := start(t, target.url(), "EVENT_LOOPS", "1")
			alice, bob, nobody := r.dial(), r.dial(), r.dial()
			for i := range test.steps { // side by side
				logInStep(alice, test.steps, i, "alice")
				logInStep(bob, test.steps, i, "bob")
				nobody.Ask(get, 401)
			}
			for range 3 {
				if a, b := alice.Ask(get, 200), bob.Ask(get, 200); a != "hello alice" || b != "hello bob" {
					t.Errorf("alice is told %q, bob %q", a, b)
				}
				r.dial().Ask(get, 401)
			}
			alice.Close()
			bob.Reset()
			r.until("their connections to the target have ended",
				func() bool { return r.samples()["ratelimiter_client_connections"] == float64(target.open()) })
			r.dial().Ask(get, 401)
		})
	}
}

// What was offered on one connection is answered on it.
func TestLoginStaysOnItsConnection(t *testing.T) {
	target := newTarget(t, loginTarget)
	r := start(t, target.url(), "EVENT_LOOPS", "1")
	alice := r.dial()
	alice.Ask(get, 401)
	r.dial().Ask(get, 401) // takes another connection: alice was offered NTLM
	logIn(alice, logins[0].steps, "alice")
	if n := target.opened.Load(); n != 2 {
		t.Errorf("%d connections to the target, want 2", n)
	}
}

// When a private connection closes during a request, the request is not sent on another one. The
// next request uses a new connection, without a login.
func TestPrivateConnectionEnds(t *testing.T) {
	target := newTarget(t, loginTarget)
	r := start(t, target.url(), "EVENT_LOOPS", "1")
	alice := r.dial()
	logIn(alice, logins[0].steps, "alice")
	alice.Ask(request("/hangup"), 502)
	if n := target.opened.Load(); n != 1 {
		t.Errorf("%d connections to the target, want 1", n)
	}
	alice.Ask(get, 401)
	logIn(alice, logins[0].steps, "alice")
	r.metrics(`upstream_retries_total=0`)
}

// A private connection takes one of the places for streams: when all are taken, no other client
// can log in, and requests without a login are answered.
func TestPrivateConnectionsAreBounded(t *testing.T) {
	target := newTarget(t, loginTarget)
	r := start(t, target.url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "2", "TARGET_STREAM_SHARE", "0.5")
	alice, bob := r.dial(), r.dial()
	logIn(alice, logins[0].steps, "alice")
	r.until("alice has a place", func() bool { return r.samples()["ratelimiter_upstream_streams"] == 1 })
	bob.Ask(login("NTLM hello bob"), 503)
	r.dial().Ask(get, 401)
	alice.Ask(get, 200)
	alice.Close()
	r.until("alice's place is free", func() bool { return r.samples()["ratelimiter_upstream_streams"] == 0 })
	logIn(bob, logins[0].steps, "bob")
}

// A target that leaves the list keeps no client.
func TestPrivateConnectionOfFormerTarget(t *testing.T) {
	old, next := newTarget(t, loginTarget), newTarget(t, loginTarget)
	r := start(t, old.url(), "EVENT_LOOPS", "1")
	alice := r.dial()
	logIn(alice, logins[2].steps, "alice")
	r.Targets.Set([]*roster.Target{{URL: next.url(), Addr: next.addr, Host: next.addr}})
	alice.Ask(get, 401)
	r.until("the old target is forgotten", func() bool { return old.open() == 0 })
	if n := next.opened.Load(); n != 1 {
		t.Errorf("%d connections to the new target", n)
	}
}
