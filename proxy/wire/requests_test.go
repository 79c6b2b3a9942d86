package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/net/http1/http1test"
	"weir/internal/test/testkit"
)

// lastHere are the requests of the corpus that are to be accepted and whose last
// recipient is the proxy: it answers them, and nothing is forwarded.
var lastHere = map[string]bool{"rfc:meth-options-maxfwd0": true}

// A trial is one case, fed in one way by a client with an address of its own.
type trial struct {
	c      *http1test.RequestCase
	octets []byte
	split  int // where the octets are parted; 0: whole
	from   string
	proxy  *rig
}

func (tr *trial) name() string { return fmt.Sprintf("%s split at %d", tr.c.ID, tr.split) }

// A recorder is a target that echoes and keeps what it sees, by the client's
// address.
//
// Safe for concurrent use: a mutex guards the map.
type recorder struct {
	mu   sync.Mutex
	seen map[string][]*seen
}

func (r *recorder) script(c *targetConn) {
	for s := c.next(); s != nil; s = c.next() {
		r.mu.Lock()
		r.seen[s.from()] = append(r.seen[s.from()], s)
		r.mu.Unlock()
		c.echo(s)
	}
}

// TestRequestCorpus sends every case of the corpora through the whole proxy,
// whole and in two parts, and compares what the client is told and what the
// target sees with the verdict. After each a canary on a fresh connection must
// get the answer to its own question.
//
// Cases that wait for more meet a proxy with short timeouts, all others one
// that is patient, so that a slow machine fails nothing. Canaries meet it, too: the
// time between their connect and their request is bounded by IDLE_TIMEOUT.
func TestRequestCorpus(t *testing.T) {
	t.Parallel() // waits for the timeouts
	rec := &recorder{seen: make(map[string][]*seen)}
	target := newTarget(t, rec.script)
	const soon = "100ms"
	patient := start(t, target.url())
	hasty := start(t, target.url(), "HEAD_TIMEOUT", soon, "BODY_TIMEOUT", soon, "IDLE_TIMEOUT", "3s")
	trials := requestTrials(t, patient, hasty)
	t.Logf("%d trials", len(trials))

	var turns sync.WaitGroup
	queue := make(chan *trial)
	for range 64 {
		turns.Go(func() {
			for tr := range queue {
				if err := tr.run(); err != nil {
					t.Errorf("%s: %v\n%.500q", tr.name(), err, tr.octets)
				}
				if err := canary(tr.proxy, tr.from); err != nil {
					t.Errorf("%s: %v", tr.name(), err)
				}
			}
		})
	}
	for _, tr := range trials {
		queue <- tr
	}
	close(queue)
	turns.Wait()
	checkBaseLine(patient)
	checkBaseLine(hasty)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, tr := range trials {
		if err := tr.judgeForwarded(rec.seen[tr.from]); err != nil {
			t.Errorf("%s: %v\n%.500q", tr.name(), err, tr.octets)
		}
	}
}

// checkBaseLine waits until nothing is left of the clients, and audits what was
// decided.
func checkBaseLine(r *rig) {
	r.t.Helper()
	r.until("no connection of a client is open", func() bool { return r.samples()["ratelimiter_client_connections"] == 0 })
	r.until("nothing is in flight", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
	s := r.samples()
	reported := s[`ratelimiter_requests_total{decision="forwarded"}`] +
		s[`ratelimiter_requests_total{decision="rejected"}`]
	reported += s[`ratelimiter_upstream_shed_total{kind="gate"}`]
	if decided := s["ratelimiter_store_decisions_total"]; decided != reported {
		r.t.Errorf("%v decisions were made, %v reported", decided, reported)
	}
}

func requestTrials(t *testing.T, patient, hasty *rig) (trials []*trial) {
	cases := http1test.Requests(t)
	for i := range cases {
		c := &cases[i]
		octets := testkit.Must(c.Bytes())(t)
		proxy, splits := patient, []int{0, len(octets) / 3, len(octets) - 1}
		if strings.HasSuffix(c.Expect, "incomplete") {
			proxy, splits = hasty, []int{0}
		}
		for _, at := range slices.Compact(splits) {
			n := len(trials)
			from := fmt.Sprintf("127.%d.%d.%d", 1+n>>16, n>>8&255, n&255)
			trials = append(trials, &trial{c: c, octets: octets, split: at, from: from, proxy: proxy})
		}
	}
	return trials
}

// verdict is what the case wants, with the recommendation for what is left open.
func (tr *trial) verdict() string {
	if tr.c.Expect == "either" {
		return tr.c.Recommended
	}
	return tr.c.Expect
}

// run sends the octets and judges the answers.
func (tr *trial) run() error {
	conn := tr.proxy.dialFrom(tr.from)
	defer conn.Close()
	// The proxy may have answered and closed before it has taken everything.
	_, _ = conn.Write(tr.octets[:tr.split])
	_, _ = conn.Write(tr.octets[tr.split:])
	verdict := tr.verdict()
	if strings.HasPrefix(verdict, "accept") {
		for i, want := range tr.c.Requests {
			res, _, err := final(conn.In, want.Method)
			if err != nil {
				return fmt.Errorf("answer %d: %w", i+1, err)
			}
			if res.StatusCode != 200 {
				return fmt.Errorf("answer %d is %s", i+1, res.Status)
			}
		}
	}
	switch verdict {
	case "accept":
		return tr.accepted(conn)
	case "reject", "reject_ambiguous", "accept_then_reject":
		return tr.refused(conn, tr.c.StatusOK)
	case "incomplete", "accept_then_incomplete":
		return tr.refused(conn, []int{408})
	}
	return fmt.Errorf("unknown verdict %q", verdict)
}

// final reads answers up to the first that is not interim.
func final(in *bufio.Reader, method string) (*http.Response, string, error) {
	for {
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return nil, "", err
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 200 {
			return res, string(body), err
		}
	}
}

// accepted checks how the connection goes on: it closes, or answers another
// request.
func (tr *trial) accepted(conn *testkit.Conn) error {
	if tr.c.Close {
		return over(conn)
	}
	target := "/again/" + tr.from
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
	res, body, err := final(conn.In, "GET")
	if err != nil || res.StatusCode != 200 || body != echoOf("GET", target, "") {
		return fmt.Errorf("the connection does not go on: %v %q", err, body)
	}
	return nil
}

// refused checks that the connection closes, with one of the statuses or
// without a word.
func (tr *trial) refused(conn *testkit.Conn, statuses []int) error {
	res, body, err := final(conn.In, "GET")
	if err != nil {
		return closedBy(err)
	}
	if !slices.Contains(statuses, res.StatusCode) {
		return fmt.Errorf("answered %s %q, want one of %v", res.Status, body, statuses)
	}
	return over(conn)
}

// over checks that nothing more comes.
func over(conn *testkit.Conn) error {
	b, err := conn.In.ReadByte()
	if err == nil {
		return fmt.Errorf("another byte: %q", b)
	}
	return closedBy(err)
}

// closedBy is nil when err says that the other side closed, however it did.
func closedBy(err error) error {
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		return fmt.Errorf("neither an answer nor a close: %w", err)
	}
	return nil
}

// canary asks on a fresh connection and must get the answer to its question.
func canary(r *rig, from string) error {
	conn := r.dialFrom(from)
	defer conn.Close()
	target := "/again/fresh/" + from
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target)
	res, body, err := final(conn.In, "GET")
	if err != nil || res.StatusCode != 200 || body != echoOf("GET", target, "") {
		return fmt.Errorf("canary: %v %q", err, body)
	}
	return over(conn)
}

// judgeForwarded compares what the target has seen with the verdict.
func (tr *trial) judgeForwarded(all []*seen) error {
	forwarded := slices.DeleteFunc(slices.Clone(all),
		func(s *seen) bool { return strings.HasPrefix(s.target(), "/again/") })
	if len(forwarded) > tr.c.MaxForwarded {
		return fmt.Errorf("%d requests were forwarded, at most %d may be", len(forwarded), tr.c.MaxForwarded)
	}
	for _, s := range forwarded {
		if err := faultsOf(s.raw); err != nil {
			return fmt.Errorf("forwarded head: %w\n%.500q", err, s.raw)
		}
	}
	if !strings.HasPrefix(tr.verdict(), "accept") {
		return nil
	}
	if lastHere[tr.c.ID] {
		if len(forwarded) > 0 {
			return fmt.Errorf("%d requests were forwarded beyond their last recipient", len(forwarded))
		}
		return nil
	}
	if len(forwarded) != len(tr.c.Requests) {
		return fmt.Errorf("%d requests were forwarded, want %d", len(forwarded), len(tr.c.Requests))
	}
	for i, want := range tr.c.Requests {
		if err := judgeRequest(&want, forwarded[i]); err != nil {
			return fmt.Errorf("forwarded request %d: %w", i+1, err)
		}
	}
	return nil
}

func judgeRequest(want *http1test.RequestSeen, got *seen) error {
	target, long := strings.CutSuffix(originForm(want.Method, want.Target), "...")
	switch {
	case got.method() != want.Method:
		return fmt.Errorf("method %q, want %q", got.method(), want.Method)
	case got.target() != target && !(long && strings.HasPrefix(got.target(), target)):
		return fmt.Errorf("target %q, want %q", got.target(), target)
	case len(got.body) != want.BodyLen:
		return fmt.Errorf("body of %d bytes, want %d", len(got.body), want.BodyLen)
	case want.BodySHA256 != nil && sumOf(got.body) != *want.BodySHA256:
		return fmt.Errorf("body %s, want %s", sumOf(got.body), *want.BodySHA256)
	}
	return nil
}

// originForm is an absolute-form target as it goes to an origin server
// (RFC 9112 section 3.2.1 and 3.2.4); other targets stay.
func originForm(method, target string) string {
	_, rest, absolute := strings.Cut(target, "://")
	if !absolute || target[0] == '/' {
		return target
	}
	at := strings.IndexAny(rest, "/?")
	switch {
	case at < 0 && method == "OPTIONS":
		return "*"
	case at < 0:
		return "/"
	case rest[at] == '?':
		return "/" + rest[at:]
	}
	return rest[at:]
}
