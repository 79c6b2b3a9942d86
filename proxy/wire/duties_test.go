package wire

import (
	"fmt"
	"io"
	"net/http"
	"slices"
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
//	trailers                                   TestDuties, TestTrailersOfAnswers
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

// added is what the proxy puts into every request for x.
const added = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: x\r\nVia: 1.1 weir\r\n"

// TestDuties is what becomes of requests, as the target sees them.
func TestDuties(t *testing.T) {
	r := serve(t, mirrors)
	trusting := []string{"TRUSTED_PROXIES", "127.0.0.0/8"}
	for _, test := range []struct {
		name, sent, seen string // heads without their ends; seen "": refused
		status           int    // of a refusal
		env              []string
	}{
		{name: "Connection names Host: it is not lost", sent: "GET / HTTP/1.1\r\nHost: x\r\nConnection: host",
			seen: "GET / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "Connection names Content-Length: the body keeps its frame",
			sent: "POST / HTTP/1.1\r\nHost: x\r\nConnection: Content-Length\r\nContent-Length: 3\r\n\r\nabc",
			seen: "POST / HTTP/1.1\r\nHost: x\r\n" + added + "Content-Length: 3\r\n"},
		{name: "Connection names Transfer-Encoding: likewise",
			sent: "POST / HTTP/1.1\r\nHost: x\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: " +
				"chunked\r\n\r\n3;x=y\r\nabc\r\n0",
			seen: "POST / HTTP/1.1\r\nHost: x\r\n" + added + "Transfer-Encoding: chunked\r\n"},
		{name: "Connection names fields of ours: they are set all the same",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, " +
				"Via\r\nVia: 1.0 other",
			seen: "GET / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "Connection names end-to-end fields: they go",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nConnection: Authorization\r\nConnection: cookie , close\r\nAuthorization: " +
				"a\r\nCookie: b\r\nAccept: c",
			seen: "GET / HTTP/1.1\r\nHost: x\r\nAccept: c\r\n" + added},
		{name: "Connection names nothing", sent: "GET / HTTP/1.1\r\nHost: x\r\nConnection: , ,\r\nAccept: c",
			seen: "GET / HTTP/1.1\r\nHost: x\r\nAccept: c\r\n" + added},
		{name: "hop-by-hop fields that Connection does not name",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nKeep-Alive: 5\r\nProxy-Connection: a\r\nProxy-Authorization: " +
				"b\r\nProxy-Authenticate: c\r\nTE: trailers\r\nTrailer: d\r\nUpgrade: websocket",
			seen: "GET / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "trailers of requests are dropped",
			sent: "POST / HTTP/1.1\r\nHost: x\r\nTrailer: A\r\nTE: trailers\r\nTransfer-Encoding: " +
				"chunked\r\n\r\n1\r\na\r\n0\r\nA: b\r\nContent-Length: 9\r\nHost: y",
			seen: "POST / HTTP/1.1\r\nHost: x\r\n" + added + "Transfer-Encoding: chunked\r\n"},
		{name: "Via is added to others'", sent: "GET / HTTP/1.1\r\nHost: x\r\nVia: 1.0 a, 1.1 weir2 (weir)",
			seen: "GET / HTTP/1.1\r\nHost: x\r\nVia: 1.0 a, 1.1 weir2 (weir)\r\n" + added},
		{name: "claims of origin are dropped",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nForwarded: for=6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: " +
				"y\r\nX-Forwarded-Proto: https\r\nX-Real-IP: 6.6.6.6\r\nTrue-Client-IP: 6.6.6.6",
			seen: "GET / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "look-alikes of them too",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nX_Forwarded_For: 6.6.6.6\r\nX_Real_IP: 6.6.6.6",
			seen: "GET / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "a trusted proxy's stand, its own address is added",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nForwarded: for=6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: " +
				"y\r\nX-Forwarded-Proto: https\r\nX-Real-IP: 6.6.6.6",
			seen: "GET / HTTP/1.1\r\nHost: x\r\nForwarded: for=6.6.6.6\r\nX-Forwarded-Host: y\r\nX-Forwarded-Proto: " +
				"https\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6, 127.0.0.1\r\nVia: 1.1 weir\r\n",
			env: trusting},
		{name: "a trusted proxy that does not say which host",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https",
			seen: "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 6.6.6.6, " +
				"127.0.0.1\r\nX-Forwarded-Host: x\r\nVia: 1.1 weir\r\n", env: trusting},
		{name: "fields of our own that only trusted proxies may send",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nX-Remote-User: root\r\nX-Remote-Users: 2",
			seen: "GET / HTTP/1.1\r\nHost: x\r\nX-Remote-Users: 2\r\n" + added,
			env:  []string{"UNTRUSTED_FIELDS", "x-auth-*, X-Remote-User"}},
		{name: "fields as they came", sent: "GET / HTTP/1.1\r\nhost: x\r\nAccept: a\r\nACCEPT: b\r\nEmpty:\r\nX-B:  c  ",
			seen: "GET / HTTP/1.1\r\nHost: x\r\nAccept: a\r\nACCEPT: b\r\nEmpty: \r\nX-B: c\r\n" + added},
		{name: "no length is invented", sent: "POST / HTTP/1.1\r\nHost: x", seen: "POST / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "a length of none", sent: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0",
			seen: "POST / HTTP/1.1\r\nHost: x\r\n" + added + "Content-Length: 0\r\n"},
		{name: "the target's host", sent: "GET / HTTP/1.1\r\nHost: x", seen: "GET / HTTP/1.1\r\nHost: TARGET\r\n" + added,
			env: []string{"HOST_HEADER", "target"}},
		{name: "HTTP/1.0 without a host", sent: "GET / HTTP/1.0",
			seen: "GET / HTTP/1.1\r\nHost: TARGET\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: " +
				"http\r\nVia: 1.0 weir\r\n"},
		{name: "absolute form", sent: "GET http://x/a?b HTTP/1.1\r\nHost: x", seen: "GET /a?b HTTP/1.1\r\nHost: x\r\n" +
			added},
		{name: "absolute form without a path", sent: "GET http://x HTTP/1.1\r\nHost: x",
			seen: "GET / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "absolute form of OPTIONS", sent: "OPTIONS http://x HTTP/1.1\r\nHost: x",
			seen: "OPTIONS * HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "absolute form that contradicts Host", sent: "GET http://y/ HTTP/1.1\r\nHost: x", status: 400},
		{name: "absolute form with user information", sent: "GET http://a:b@x/ HTTP/1.1\r\nHost: x", status: 400},
		{name: "asterisk form", sent: "OPTIONS * HTTP/1.1\r\nHost: x", seen: "OPTIONS * HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "asterisk form of GET", sent: "GET * HTTP/1.1\r\nHost: x", status: 400},
		{name: "authority form of GET", sent: "GET x:80 HTTP/1.1\r\nHost: x", status: 400},
		{name: "the path as it came", sent: "GET /%7e/../a//b;c?d=%00&e=+?/ HTTP/1.1\r\nHost: x",
			seen: "GET /%7e/../a//b;c?d=%00&e=+?/ HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "a method nobody knows", sent: "BREW / HTTP/1.1\r\nHost: x", seen: "BREW / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "no Host", sent: "GET / HTTP/1.1\r\nAccept: a", status: 400},
		{name: "two Hosts", sent: "GET / HTTP/1.1\r\nHost: x\r\nHost: x", status: 400},
		{name: "a Host that is none", sent: "GET / HTTP/1.1\r\nHost: a b", status: 400},
		{name: "another major version", sent: "GET / HTTP/2.0\r\nHost: x", status: 505},
		{name: "CONNECT", sent: "CONNECT x:80 HTTP/1.1\r\nHost: x:80", status: 405},
		{name: "TRACE", sent: "TRACE / HTTP/1.1\r\nHost: x", status: 405},
		{name: "TRACE with Max-Forwards", sent: "TRACE / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 5", status: 405},
		{name: "Max-Forwards of OPTIONS", sent: "OPTIONS / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 5",
			seen: "OPTIONS / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 4\r\n" + added},
		{name: "Max-Forwards elsewhere", sent: "GET / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0",
			seen: "GET / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n" + added},
		{name: "Expect of something else", sent: "PUT / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 1\r\n\r\na",
			status: 417},
		{name: "Expect of HTTP/1.0 is not heard",
			sent: "PUT / HTTP/1.0\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
			seen: "PUT / HTTP/1.1\r\nHost: x\r\n" + strings.Replace(added, "1.1", "1.0", 1) + "Content-Length: 1\r\n"},
		{name: "Upgrade to what is let through",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: a",
			seen: "GET / HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Key: a\r\n" + added +
				"Connection: upgrade\r\nUpgrade: WebSocket\r\n"},
		{name: "Upgrade to h2c", sent: "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " +
			"h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", seen: "GET / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "HTTP2-Settings that Connection does not name",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
			seen: "GET / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "Upgrade to one of several",
			sent: "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c",
			seen: "GET / HTTP/1.1\r\nHost: x\r\n" + added},
		{name: "Upgrade by HTTP/1.0", sent: "GET / HTTP/1.0\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket",
			seen: "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Replace(added, "1.1", "1.0", 1)},
		{name: "Upgrade with a body",
			sent: "POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\na",
			seen: "POST / HTTP/1.1\r\nHost: x\r\n" + added + "Content-Length: 1\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			proxy := r
			if test.env != nil {
				proxy = serve(t, mirrors, test.env...)
			}
			conn := proxy.dial()
			conn.T = t
			defer conn.Close()
			conn.Send(test.sent)
			if !strings.HasSuffix(test.sent, "\r\n\r\na") && !strings.HasSuffix(test.sent, "\r\n\r\nabc") {
				conn.Send("\r\n\r\n")
			}
			if test.status == 0 {
				want := strings.Replace(test.seen, "TARGET", proxy.Targets.All()[0].Addr, 1) + "\r\n"
				if _, got := conn.Status(200); got != want {
					t.Errorf("the target saw\n%s\nwant\n%s", got, want)
				}
				return
			}
			res, body := conn.Status(test.status)
			if !res.Close || !strings.HasPrefix(body, `{"error":"`) ||
				res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Date") == "" {
				t.Errorf("refused with %v %q", res.Header, body)
			}
			if allowed := res.Header.Get("Allow"); (allowed != "") != (test.status == 405) {
				t.Errorf("Allow: %q", allowed) // RFC 9110 section 15.5.6
			}
		})
	}
}

// A request that has passed this proxy came in a circle, wherever its name is
// and whether or not Connection names Via.
func TestLoop(t *testing.T) {
	// A circle in earnest: the proxy is its own target.
	r := start(t, "http://127.0.0.1:1")
	r.Targets.Set([]*roster.Target{{URL: "http://" + r.Addr().String(), Addr: r.Addr().String(), Host: "x"}})
	if body := r.dial().Ask(get, 508); body != `{"error":"the request has passed this proxy before"}`+"\n" {
		t.Errorf("answered %q", body)
	}
	r.metrics(`responses.508=2 store_decisions_total=1`)
	for _, via := range []string{"Via: 1.1 weir", "Via: 1.0 a, HTTP/1.1 weir (b), 1.1 c",
		"Via: 1.0 a\r\nVia: 1.1\tweir", "Connection: Via\r\nVia: 1.1 weir"} {
		r.dial().Ask("GET / HTTP/1.1\r\nHost: x\r\n"+via+"\r\n\r\n", 508)
	}
}

// OPTIONS that may go no further is answered here.
func TestLastRecipient(t *testing.T) {
	target := newTarget(t, echoes)
	r := start(t, target.url())
	conn := r.dial()
	for _, sent := range []string{"OPTIONS * HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n",
		"OPTIONS /a HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\nContent-Length: 2\r\n\r\nab"} {
		conn.Send(sent)
		if res, body := conn.Status(200); !strings.Contains(res.Header.Get("Allow"), "GET, HEAD, POST") || body != "" ||
			res.Close {
			t.Errorf("answered %v %q", res.Header, body)
		}
	}
	if n := target.opened.Load(); n != 0 {
		t.Errorf("%d connections to the target", n)
	}
}

// No interim answer, and no 100 of the proxy's own, goes to HTTP/1.0.
func TestInterimToOldClient(t *testing.T) {
	target := newTarget(t, each(func(c *targetConn, s *seen) {
		c.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n")
		c.echo(s)
	}))
	r := start(t, target.url())
	for _, test := range []struct {
		sent    string
		interim []int
	}{
		{"PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na", nil},
		{"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na", []int{102, 103}},
		// one 100, ours
		{"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na", []int{100, 102, 103}},
		// nothing to wait for
		{"GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", []int{102, 103}},
	} {
		conn := r.dial()
		conn.Send(test.sent)
		a, err := readAnswer(conn, "GET")
		if err != nil || a.status != 200 || !slices.Equal(a.interim, test.interim) {
			t.Errorf("%q: answered %+v, %v, want %v and 200", test.sent, a, err, test.interim)
		}
	}
}

// A request that waits for 100 and is refused is answered before any byte of the body, and
// following bytes are not interpreted as a request.
func TestExpectRefusedUnread(t *testing.T) {
	target := newTarget(t, echoes)
	r := start(t, target.url(), "RATE_LIMIT_LIMIT", "1", "BODY_MAX_BYTES", "1KiB")
	r.dial().Ask(get, 200)
	for _, test := range []struct {
		expect string
		length int
		status int
	}{{"100-continue", 100, 429}, {"100-continue", 5000, 413}, {"tea", 100, 417}} {
		conn := r.dial()
		conn.Send(fmt.Sprintf("PUT / HTTP/1.1\r\nHost: x\r\nExpect: %s\r\nContent-Length: %d\r\n\r\n", test.expect,
			test.length))
		if res, _ := conn.Status(test.status); !res.Close {
			t.Errorf("%d does not say that the connection closes", test.status)
		}
		_, _ = io.WriteString(conn, get)
		conn.Closed()
	}
	if s := r.samples(); s["ratelimiter_store_decisions_total"] != 2 {
		t.Errorf("%v decisions were made", s["ratelimiter_store_decisions_total"])
	}
}

// Answers to HEAD, and with 204 and 304, have no body, whatever the head says, and following
// bytes belong to no answer.
func TestBodylessAnswers(t *testing.T) {
	for _, test := range []struct {
		name, method, answer string
		length               string // Content-Length that the client sees
		reused               bool
	}{
		{"HEAD with a length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "5", true},
		{"HEAD with chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "", true},
		{"HEAD with a body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", "5", false},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "", true},
		{"204 with a length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "", true},
		{"204 with a body", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nabcde", "", false},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "5", true},
		{"304 with chunks", "GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := newTarget(t, answersOnce(test.answer, false))
			conn := start(t, target.url(), "EVENT_LOOPS", "1").dial()
			conn.Send(test.method + " / HTTP/1.1\r\nHost: x\r\n\r\n")
			res, body := conn.Answer(test.method)
			if got := res.Header.Get("Content-Length"); body != "" || got != test.length || res.Close {
				t.Errorf("answered %v %q, want a length of %q", res.Header, body, test.length)
			}
			conn.Ask(request("/again"), 200)
			if reused := target.opened.Load() == 1; reused != test.reused {
				t.Errorf("the target's connection is used again: %t", reused)
			}
		})
	}
}

// Trailers of answers are dropped: they are never merged into a head, and what
// they say about framing is not heard.
func TestTrailersOfAnswers(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nTrailer: A, Content-Length\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n2\r\nab\r\n0\r\nA: b\r\nContent-Length: 9\r\n\r\n"
	conn := start(t, newTarget(t, answersOnce(answer, false)).url()).dial()
	conn.Send("GET / HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: TE\r\n\r\n")
	res := testkit.Must(http.ReadResponse(conn.In, nil))(t)
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "ab" || res.Header.Get("A") != "" ||
		len(res.Trailer) != 0 {
		t.Errorf("answered %v %q %v, trailers %v", res.Header, body, err, res.Trailer)
	}
	conn.Ask(request("/again"), 200)
}
