package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/net/http1/http1test"
	"weir/internal/test/testkit"
)

// TestResponseCorpus has a target answer with every case of the corpora, one
// after the other over one loop, and compares what the client is told with the
// verdict. Then the client asks again: the answer must be its own, and come over
// the same connection to the target if and only if that may be used again.
func TestResponseCorpus(t *testing.T) {
	cases := http1test.Responses(t)
	target := newTarget(t, func(c *targetConn) { playResponses(c, cases) })
	r := start(t, target.url(), "EVENT_LOOPS", "1")
	for i := range cases {
		c := &cases[i]
		t.Run(c.ID, func(t *testing.T) {
			conn := r.dial()
			conn.T = t
			defer conn.Close()
			judgeResponse(conn, c, i)
		})
	}
	checkBaseLine(r)
}

// playResponses answers /case/N with the octets of case N, and anything else
// with the number of the connection.
func playResponses(c *targetConn, cases []http1test.ResponseCase) {
	for s := c.next(); s != nil; s = c.next() {
		number, ok := strings.CutPrefix(s.target(), "/case/")
		if !ok {
			text := strconv.FormatInt(c.number, 10)
			c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			c.t.Errorf("asked for %s", s.target())
			return
		}
		octets, err := cases[n].Bytes()
		if err != nil {
			c.t.Error(err)
			return
		}
		answer := string(octets)
		if cases[n].Expect == "discard" { // they come unasked, behind the answer
			answer = echoAnswer(s) + answer
		}
		c.say(answer)
		if cases[n].Expect == "tunnel" && !cases[n].UpstreamCloses {
			got := make([]byte, len(tunnelled))
			if _, err := io.ReadFull(io.MultiReader(bytes.NewReader(c.unread), c), got); err != nil || string(got) != tunnelled {
				c.t.Errorf("the tunnel gave %q, %v", got, err)
			}
			c.say("heard")
			return
		}
		if cases[n].UpstreamCloses {
			return
		}
	}
}

// whichConn asks the target for the number of the connection.
func whichConn(conn *testkit.Conn) string {
	return conn.Ask("GET /which HTTP/1.1\r\nHost: x\r\n\r\n", 200)
}

func judgeResponse(conn *testkit.Conn, c *http1test.ResponseCase, i int) {
	t := conn.T
	before := whichConn(conn)
	body, upgrade := "", ""
	if c.RequestMethod == "POST" {
		body = "abc"
	}
	asked := protocolOf(t, c)
	if asked != "" {
		upgrade = "Connection: upgrade\r\nUpgrade: " + asked + "\r\n"
	} else {
		upgrade = fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	conn.Send(fmt.Sprintf("%s /case/%d HTTP/1.1\r\nHost: x\r\n%s\r\n%s", c.RequestMethod, i, upgrade, body))
	if asked == "websocket" {
		judgeTunnel(conn, c)
		return
	}
	a, err := readAnswer(conn, c.RequestMethod)
	if err != nil && (a == nil || c.Expect != "abort" || a.count("transfer-encoding") == 0) {
		t.Fatalf("no answer: %+v, %v", a, err) // all other verdicts leave the connection to the client alone
	}
	if err == nil || a.status != 200 {
		if err := a.judge(c); err != nil {
			t.Error(err)
		}
	}
	want := slices.DeleteFunc(slices.Clone(c.Interim), func(status int) bool { return status == 100 })
	if c.Expect != "either" && !slices.Equal(a.interim, want) {
		t.Errorf("interim answers %v, want %v", a.interim, want)
	}
	if err != nil { // it was cut, as the client has noticed
		if err := over(conn); err != nil {
			t.Error(err)
		}
		return
	}
	after := whichConn(conn)
	if c.UpstreamCloses {
		return // the target decides whether the connection goes on
	}
	equal(t, "the target's connection is used again", before == after, c.Reuse)
}

// protocolOf is the protocol that the request of a case has to ask for: the one
// that its answer switches to.
func protocolOf(t testing.TB, c *http1test.ResponseCase) string {
	t.Helper()
	if c.Expect != "tunnel" {
		return ""
	}
	octets := testkit.Must(c.Bytes())(t)
	res := testkit.Must(http.ReadResponse(bufio.NewReader(bytes.NewReader(octets)), nil))(t)
	return cmp.Or(c.RequestUpgrade, res.Header.Get("Upgrade"))
}

// judgeTunnel fails unless the client is told of the switch, gets the bytes
// behind it as they are, and the target those that the client sends then.
func judgeTunnel(conn *testkit.Conn, c *http1test.ResponseCase) {
	t := conn.T
	octets := testkit.Must(c.Bytes())(t)
	_, behind, _ := bytes.Cut(octets, []byte("\r\n\r\n"))
	res, err := http.ReadResponse(conn.In, nil)
	if err != nil || res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" ||
		res.Header.Get("Connection") != "upgrade" {
		t.Fatalf("answered %v, %v, want the switch", res, err)
	}
	got := make([]byte, len(behind))
	if _, err := io.ReadFull(conn.In, got); err != nil || !bytes.Equal(got, behind) {
		t.Errorf("behind the switch came %q, %v, want %q", got, err, behind)
	}
	conn.Send(tunnelled)
	if _, err := io.ReadFull(conn.In, got[:len("heard")]); err != nil || string(got[:len("heard")]) != "heard" {
		t.Errorf("the target answered %q, %v", got, err)
	}
}

// tunnelled is what a client sends through a tunnel: no HTTP.
const tunnelled = "\x81\x00 not HTTP\r\n\r\n"

// A clientAnswer is everything that a client receives in answer to one request.
type clientAnswer struct {
	interim []int
	status  int
	head    string // as it came
	body    string
}

// readAnswer reads up to the final answer, which must be framed in one way only.
func readAnswer(conn *testkit.Conn, method string) (*clientAnswer, error) {
	a := new(clientAnswer)
	for {
		head, err := peekHead(conn)
		if err != nil {
			return nil, err
		}
		res, err := http.ReadResponse(conn.In, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if res.StatusCode < 200 {
			a.interim = append(a.interim, res.StatusCode)
			continue
		}
		body, err := io.ReadAll(res.Body)
		a.status, a.head, a.body = res.StatusCode, head, string(body)
		return a, err
	}
}

// peekHead returns the bytes of the head that comes next.
func peekHead(conn *testkit.Conn) (string, error) {
	for {
		b, _ := conn.In.Peek(conn.In.Buffered())
		if end := bytes.Index(b, []byte("\r\n\r\n")); end >= 0 {
			return string(b[:end+4]), nil
		}
		if _, err := conn.In.Peek(len(b) + 1); err != nil {
			return "", err
		}
	}
}

func (a *clientAnswer) judge(c *http1test.ResponseCase) error {
	if lengths, codings := a.count("content-length"), a.count("transfer-encoding"); lengths+codings > 1 ||
		a.count("via") > 1 {
		return fmt.Errorf("fields are there twice: %q", a.head)
	}
	switch c.Expect {
	case "forward":
		switch {
		case a.status != c.ClientStatus:
			return fmt.Errorf("status %d, want %d", a.status, c.ClientStatus)
		case len(a.body) != c.BodyLen:
			return fmt.Errorf("body of %d bytes, want %d", len(a.body), c.BodyLen)
		case c.BodySHA256 != "" && sumOf(a.body) != c.BodySHA256:
			return fmt.Errorf("body %s, want %s", sumOf(a.body), c.BodySHA256)
		}
	case "discard":
		if a.status != 200 {
			return fmt.Errorf("status %d for an answer before the unasked one", a.status)
		}
	case "bad_gateway", "abort", "tunnel":
		// What breaks off was collected, or nothing of it was sent. A switch that
		// gets here is to a protocol that is not let through, so nobody asked.
		if a.status != 502 || !strings.HasPrefix(a.body, `{"error":"`) {
			return fmt.Errorf("answered %d %q, want 502", a.status, a.body)
		}
	case "either":
		if a.status != 502 && a.status != 200 && a.status != 404 {
			return fmt.Errorf("status %d", a.status)
		}
	default:
		return fmt.Errorf("unknown verdict %q", c.Expect)
	}
	return nil
}

// count is how many field lines of the head have the name.
func (a *clientAnswer) count(name string) (n int) {
	for line := range strings.SplitSeq(a.head, "\r\n") {
		if field, _, _ := strings.Cut(line, ":"); strings.EqualFold(field, name) {
			n++
		}
	}
	return n
}
