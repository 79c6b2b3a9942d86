package wire

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
)

// The duties of an HTTP/1.1 intermediary (RFC 9110, 9112, 6585, 7239) and
// where each is tested:
//
//	message parsing, framing, Host             TestRequestCorpus, TestResponseCorpus, TestHeadBounds
//	absolute, authority and asterisk form      TestDuties
//	hop-by-hop fields, named ones among them   TestDuties, TestRelayedAnswer
//	Via, loops                                 TestDuties, TestLoop
//	X-Forwarded-*, Forwarded, trusted proxies  TestDuties
//	interim answers (1xx)                      TestInterimAnswers, TestInterimToOldClient, TestSabotage
//	Expect                                     TestExpectContinue, TestExpectRefusedUnread, TestDuties
//	HEAD, 204, 304                             TestRelayedAnswer, TestBodylessAnswers
//	close-delimited, truncated answers         TestRelayedAnswer, TestTargetFaulty, TestStreamedAnswerFaulty
//	trailers                                   TestDuties, trailers_test.go, TestTrailersOfAnswers
//	pipelining in order                        TestPipelining, TestOwnEndpointsInOrder, TestChaos
//	the connection: close, keep-alive          TestRelayedAnswer, TestDrain, TestRequestCorpus
//	lingering close, early answers             TestRefusedUpload, TestTargetRefusesUpload
//	matching of answers to requests            TestUnaskedBytes, TestResponseCorpus, TestChaos
//	retry                                      TestRetry, TestNoRetryOnFreshConnection,
//	                                           TestRetryOfUpgrade, TestOneOfTwoTargetsIsDown
//	status mapping                             TestStatuses
//	CONNECT, TRACE, Max-Forwards               TestDuties
//	Upgrade                                    TestDuties, TestPipelinedBehindUpgrade,
//	                                           TestResponseCorpus, tunnels_test.go
//	timeouts                                   TestClientTimeouts, TestTargetSlow, TestClientDoesNotRead

// duties says what becomes of requests: the head as the target gets it, or the status of a refusal. ADDED
// are the fields that the proxy puts into every request for x.
const duties = `
Connection names Host: it is not lost | GET / Connection=host | GET / ADDED
Connection names Content-Length: the body keeps its frame | POST / Connection=Content-Length body=abc | POST / ADDED Content-Length=3
Connection names Transfer-Encoding: likewise | POST / Connection=Transfer-Encoding Transfer-Encoding=chunked part="3;x=y\r\nabc\r\n0\r\n\r\n" | POST / ADDED Transfer-Encoding=chunked
Connection names fields of ours: they are set all the same | GET / Connection="X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, Via" Via="1.0 other" | GET / ADDED
Connection names end-to-end fields: they go | GET / Connection=Authorization Connection="cookie , close" Authorization=a Cookie=b Accept=c | GET / Accept=c ADDED
Connection names nothing | GET / Connection=", ," Accept=c | GET / Accept=c ADDED
hop-by-hop fields that Connection does not name | GET / Keep-Alive=5 Proxy-Connection=a Proxy-Authorization=b Proxy-Authenticate=c TE=gzip Trailer=d Upgrade=websocket | GET / ADDED
TE of what the client takes | GET / TE="gzip, trailers" | GET / ADDED Connection=TE TE=trailers
trailers are not announced | POST / Trailer=A Transfer-Encoding=chunked part="1\r\na\r\n0\r\nA: b\r\nContent-Length: 9\r\nHost: y\r\n\r\n" | POST / ADDED Transfer-Encoding=chunked
Via is added to others' | GET / Via="1.0 a, 1.1 weir2 (weir)" | GET / Via="1.0 a, 1.1 weir2 (weir)" ADDED
claims of origin are dropped | GET / Forwarded=for=6.6.6.6 X-Forwarded-For=6.6.6.6 X-Forwarded-Host=y X-Forwarded-Proto=https X-Real-IP=6.6.6.6 True-Client-IP=6.6.6.6 | GET / ADDED
look-alikes of them too | GET / X_Forwarded_For=6.6.6.6 X_Real_IP=6.6.6.6 | GET / ADDED
a trusted proxy's stand, its own address is added | GET / Forwarded=for=6.6.6.6 X-Forwarded-For=6.6.6.6 X-Forwarded-Host=y X-Forwarded-Proto=https X-Real-IP=6.6.6.6 | GET / Forwarded=for=6.6.6.6 X-Forwarded-Host=y X-Forwarded-Proto=https X-Real-IP=6.6.6.6 X-Forwarded-For="6.6.6.6, 127.0.0.1" Via="1.1 weir" | TRUSTED_PROXIES | 127.0.0.0/8
a trusted proxy that does not say which host | GET / X-Forwarded-For=6.6.6.6 X-Forwarded-Proto=https | GET / X-Forwarded-Proto=https X-Forwarded-For="6.6.6.6, 127.0.0.1" X-Forwarded-Host=x Via="1.1 weir" | TRUSTED_PROXIES | 127.0.0.0/8
fields of our own that only trusted proxies may send | GET / X-Remote-User=root X-Remote-Users=2 | GET / X-Remote-Users=2 ADDED | UNTRUSTED_FIELDS | x-auth-*, X-Remote-User
fields as they came | "GET / HTTP/1.1\r\nhost: x\r\nAccept: a\r\nACCEPT: b\r\nEmpty:\r\nX-B:  c  \r\n\r\n" | GET / Accept=a ACCEPT=b Empty= X-B=c ADDED
no length is invented | POST / | POST / ADDED
a length of none | POST / Content-Length=0 | POST / ADDED Content-Length=0
the target's host | GET / | "GET / HTTP/1.1\r\nHost: TARGET\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: x\r\nVia: 1.1 weir\r\n\r\n" | HOST_HEADER | target
HTTP/1.0 without a host | GET / HTTP/1.0 | "GET / HTTP/1.1\r\nHost: TARGET\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nVia: 1.0 weir\r\n\r\n"
absolute form | GET http://x/a?b | GET /a?b ADDED
absolute form without a path | GET http://x | GET / ADDED
absolute form of OPTIONS | OPTIONS http://x | OPTIONS * ADDED
absolute form that contradicts Host | GET http://y/ | 400
absolute form with user information | GET http://a:b@x/ | 400
asterisk form | OPTIONS * | OPTIONS * ADDED
asterisk form of GET | GET * | 400
authority form of GET | GET x:80 | 400
the path as it came | GET /%7e/../a//b;c?d=%00&e=+?/ | GET /%7e/../a//b;c?d=%00&e=+?/ ADDED
a method nobody knows | BREW / | BREW / ADDED
no Host | "GET / HTTP/1.1\r\nAccept: a\r\n\r\n" | 400
two Hosts | GET / Host=x | 400
a Host that is none | "GET / HTTP/1.1\r\nHost: a b\r\n\r\n" | 400
another major version | "GET / HTTP/2.0\r\nHost: x\r\n\r\n" | 505
CONNECT | "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n" | 405
TRACE | TRACE / | 405
TRACE with Max-Forwards | TRACE / Max-Forwards=5 | 405
Max-Forwards of OPTIONS | OPTIONS / Max-Forwards=5 | OPTIONS / Max-Forwards=4 ADDED
Max-Forwards elsewhere | GET / Max-Forwards=0 | GET / Max-Forwards=0 ADDED
Expect of something else | PUT / Expect=tea body=a | 417
Expect of HTTP/1.0 is not heard | PUT / HTTP/1.0 Host=x Expect=100-continue body=a | PUT / ADDED_1.0 Content-Length=1
Upgrade to what is let through | GET / Connection="keep-alive, Upgrade" Upgrade=WebSocket Sec-WebSocket-Key=a | GET / Sec-WebSocket-Key=a ADDED Connection=upgrade Upgrade=WebSocket
Upgrade to h2c | GET / Connection="Upgrade, HTTP2-Settings" Upgrade=h2c HTTP2-Settings=AAMAAABkAAQAAP__ | GET / ADDED
HTTP2-Settings that Connection does not name | GET / Upgrade=h2c HTTP2-Settings=AAMAAABkAAQAAP__ | GET / ADDED
Upgrade to one of several | GET / Connection=Upgrade Upgrade="websocket, h2c" | GET / ADDED
Upgrade by HTTP/1.0 | GET / HTTP/1.0 Host=x Connection=Upgrade Upgrade=websocket | GET / ADDED_1.0
Upgrade with a body | POST / Connection=Upgrade Upgrade=websocket body=a | POST / ADDED Content-Length=1`

// TestDuties is what becomes of requests, as the target sees them.
func TestDuties(t *testing.T) {
	usual := serve(t, mirrors)
	const added = `X-Forwarded-For=127.0.0.1 X-Forwarded-Proto=http X-Forwarded-Host=x Via="1.1 weir"`
	replaced := strings.NewReplacer("ADDED_1.0", strings.Replace(added, "1.1 weir", "1.0 weir", 1), "ADDED", added)
	for row := range strings.Lines(strings.TrimSpace(replaced.Replace(duties))) {
		cells := strings.Split(strings.TrimSpace(row), " | ")
		t.Run(cells[0], func(t *testing.T) {
			r := usual
			if len(cells) > 3 {
				r = serve(t, mirrors, cells[3:]...)
			}
			if r.t = t; len(cells[2]) > len("400") {
				want := strings.Replace(r.request(words(cells[2])).text, "TARGET", r.Targets.All()[0].Addr, 1)
				r.playf(`c %s -> 200 =%q; c closes`, cells[1], want)
				return
			}
			allow := "" // RFC 9110 section 15.5.6
			if cells[2] == "405" {
				allow = "*"
			}
			r.playf(`c %s -> %s closes "{\"error\":\"" Content-Type=application/json Date=* Allow=%s; c closes`,
				cells[1], cells[2], allow)
		})
	}
}

// A request that has passed this proxy came in a circle, wherever its name is
// and whether or not Connection names Via.
func TestLoop(t *testing.T) {
	for _, via := range []string{"weir", "off"} { // a circle in earnest: the proxy is its own target
		r := start(t, "http://127.0.0.1:1", "VIA_NAME", via)
		r.Targets.Set([]*roster.Target{{URL: "http://" + r.Addr().String(), Addr: r.Addr().String(), Host: "x"}})
		r.play(`GET / -> 508 error="the request has passed this proxy before"
			metrics responses.508=2 store_decisions_total=1`)
	}
	serve(t, echoes).play(`
		b GET / Via="1.1 weir" -> 508; c GET / Via="1.0 a, HTTP/1.1 weir (b), 1.1 c" -> 508
		d GET / Via="1.0 a" Via="1.1\tweir" -> 508; e GET / Connection=Via Via="1.1 weir" -> 508`)
}

// OPTIONS that may go no further is answered here.
func TestLastRecipient(t *testing.T) {
	serve(t, echoes).play(`
		a OPTIONS * Max-Forwards=0 -> 200 Allow="GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS" ="" stays
		a OPTIONS /a Max-Forwards=0 body=ab -> 200 Allow="GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS" ="" stays
		target opened 0`)
}

// No interim answer, and no 100 of the proxy's own, goes to HTTP/1.0.
func TestInterimToOldClient(t *testing.T) {
	serve(t, each(func(c *targetConn, s *seen) {
		c.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n")
		c.echo(s)
	})).play(`
		a PUT / HTTP/1.0 Expect=100-continue body=a -> 200
		b PUT / body=a -> 102 + 103 + 200
		c PUT / Expect=100-continue body=a -> 100 + 102 + 103 + 200 # one 100, ours
		d GET / Expect=100-continue -> 102 + 103 + 200              # nothing to wait for`)
}

// A request that waits for 100 and is refused is answered before any byte of the body, and
// following bytes are not interpreted as a request.
func TestExpectRefusedUnread(t *testing.T) {
	serve(t, echoes, "RATE_LIMIT_LIMIT", "1", "BODY_MAX_BYTES", "1KiB").play(`
		GET / -> 200
		a PUT / Expect=100-continue Content-Length=100 -> 429 closes; a GET / -> closed
		b PUT / Expect=100-continue Content-Length=5000 -> 413 closes; b GET / -> closed
		c PUT / Expect=tea Content-Length=100 -> 417 closes; c GET / -> closed
		metrics store_decisions_total=2`)
}

// Answers to HEAD, and with 204 and 304, have no body, whatever the head says, and following
// bytes belong to no answer.
func TestBodylessAnswers(t *testing.T) {
	for _, test := range []struct {
		name, method, answer string
		length               string // Content-Length that the client sees
		opened               int    // 1: the target's connection is used again
	}{
		{"HEAD with a length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "5", 1},
		{"HEAD with chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "", 1},
		{"HEAD with a body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", "5", 2},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "", 1},
		{"204 with a length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "", 1},
		{"204 with a body", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nabcde", "", 2},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "5", 1},
		{"304 with chunks", "GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			serve(t, answersOnce(test.answer, false), "EVENT_LOOPS", "1").playf(`
				a %s / -> 200|204|304 ="" Content-Length=%s stays; a GET /again -> 200; target opened %d`,
				test.method, test.length, test.opened)
		})
	}
}

// Trailers of answers are never merged into a head, and what they say about framing is not heard.
func TestTrailersOfAnswers(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nTrailer: A, Content-Length\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n2\r\nab\r\n0\r\nA: b\r\nContent-Length: 9\r\n\r\n"
	r := serve(t, answersOnce(answer, false))
	r.play(`a GET / TE=trailers Connection=TE; a -> reads "HTTP/1.1 200 "`)
	res := testkit.Must(http.ReadResponse(r.clients("a")[0].In, nil))(t)
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "ab" || res.Header.Get("A") != "" ||
		inOrder(res.Trailer) != "A:b" {
		t.Errorf("answered %v %q %v, trailers %v", res.Header, body, err, res.Trailer)
	}
	r.play(`a GET /again -> 200`)
}
