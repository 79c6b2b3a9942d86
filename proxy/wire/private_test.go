package wire

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/net/http1"
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

// A connection to the target on which a client logs in serves only that client, from the first
// step on, and stays with it.
func TestLoginIsNotInherited(t *testing.T) {
	for name, steps := range map[string][]string{
		"NTLM":      {`"NTLM hello %s" -> 401 =""`, `"NTLM answer %s" -> 200 ="hello %[1]s"`},
		"ntlm":      {`"ntlm hello %s" -> 401 =""`, `"nTLm answer %s" -> 200 ="hello %[1]s"`},
		"Negotiate": {`"Negotiate %s" -> 200 ="hello %[1]s"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, loginTarget, "EVENT_LOOPS", "1")
			for _, step := range steps { // side by side
				for _, user := range []string{"alice", "bob"} {
					r.play(user + ` GET / Authorization=` + fmt.Sprintf(step, user))
				}
				r.play(`nobody GET / -> 401`)
			}
			for n := range 3 {
				r.playf(`alice GET / -> 200 ="hello alice"; bob GET / -> 200 ="hello bob"; new%d GET / -> 401`, n)
			}
			r.play(`alice closes; bob resets`)
			r.until("their connections to the target have ended", func() bool {
				return r.samples()["ratelimiter_client_connections"] == float64(r.targets["target"].open())
			})
			r.play(`last GET / -> 401`)
		})
	}
}

// What was offered on one connection is answered on it.
func TestLoginStaysOnItsConnection(t *testing.T) {
	serve(t, loginTarget, "EVENT_LOOPS", "1").play(`
		alice GET / -> 401; other GET / -> 401 # takes another connection: alice was offered NTLM
		` + aliceLogsIn + `; target opened 2`)
}

// aliceLogsIn is the longest way to log in.
const aliceLogsIn = `
		alice GET / Authorization="NTLM hello alice" -> 401 =""
		alice GET / Authorization="NTLM answer alice" -> 200 ="hello alice"`

// When a private connection closes during a request, the request is not sent on another one. The
// next request uses a new connection, without a login.
func TestPrivateConnectionEnds(t *testing.T) {
	serve(t, loginTarget, "EVENT_LOOPS", "1").play(aliceLogsIn + `
		alice GET /hangup -> 502; target opened 1; alice GET / -> 401` + aliceLogsIn + `
		metrics upstream_retries_total=0`)
}

// A private connection takes one of the places for streams: when all are taken, no other client
// can log in, and requests without a login are answered.
func TestPrivateConnectionsAreBounded(t *testing.T) {
	serve(t, loginTarget, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "2", "TARGET_STREAM_SHARE", "0.5").play(
		aliceLogsIn + `; until upstream_streams=1
		bob GET / Authorization="NTLM hello bob" -> 503; other GET / -> 401; alice GET / -> 200
		alice closes; until upstream_streams=0
		bob GET / Authorization="NTLM hello bob" -> 401; bob GET / Authorization="NTLM answer bob" -> 200 ="hello bob"`)
}

// A target that leaves the list keeps no client.
func TestPrivateConnectionOfFormerTarget(t *testing.T) {
	before(t, asSet, map[string]*fakeTarget{"old": newTarget(t, loginTarget), "next": newTarget(t, loginTarget)},
		"EVENT_LOOPS", "1").play(`
		targets old; alice GET / Authorization="Negotiate alice" -> 200 ="hello alice"
		targets next; alice GET / -> 401; old open 0; next opened 1`)
}
