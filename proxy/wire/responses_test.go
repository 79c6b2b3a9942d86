package wire

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/http1/http1test"
)

// TestResponseCorpus has a target answer with every case of the corpora, one
// after the other over one loop, and compares what the client is told with the
// verdict. Then the client asks again: the answer must be its own, and come over
// the same connection to the target if and only if that may be used again.
func TestResponseCorpus(t *testing.T) {
	cases := responseCases(t)
	target := newTarget(t, func(c *targetConn) { playResponses(c, cases) })
	r := start(t, target.url(), "EVENT_LOOPS", "1")
	for i := range cases {
		c := &cases[i]
		t.Run(c.ID, func(t *testing.T) {
			conn := r.dial()
			conn.t = t
			defer conn.Close()
			judgeResponse(conn, c, i)
		})
	}
	checkBaseLine(r)
}

func responseCases(t *testing.T) (cases []http1test.ResponseCase) {
	corpora, err := http1test.Corpora()
	if err != nil {
		t.Fatal(err)
	}
	for _, corpus := range corpora {
		some, err := corpus.Responses()
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, some...)
	}
	return cases
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
		if cases[n].UpstreamCloses {
			return
		}
	}
}

// whichConn asks the target for the number of the connection.
func whichConn(conn *caller) string { return conn.ask("GET /which HTTP/1.1\r\nHost: x\r\n\r\n", 200) }

func judgeResponse(conn *caller, c *http1test.ResponseCase, i int) {
	t := conn.t
	before := whichConn(conn)
	body := ""
	if c.RequestMethod == "POST" {
		body = "abc"
	}
	conn.send(fmt.Sprintf("%s /case/%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", c.RequestMethod, i, len(body), body))
	a, err := readAnswer(conn, c.RequestMethod)
	if err != nil {
		t.Fatalf("no answer: %v", err) // all verdicts leave the connection to the client alone
	}
	if err := a.judge(c); err != nil {
		t.Error(err)
	}
	want := slices.DeleteFunc(slices.Clone(c.Interim), func(status int) bool { return status == 100 })
	if c.Expect != "either" && !slices.Equal(a.interim, want) {
		t.Errorf("interim answers %v, want %v", a.interim, want)
	}
	after := whichConn(conn)
	if c.UpstreamCloses {
		return // the target decides whether the connection goes on
	}
	if reused := before == after; reused != c.Reuse {
		t.Errorf("the target's connection is used again: %t, want %t", reused, c.Reuse)
	}
}

// A clientAnswer is everything a client is told about one request.
type clientAnswer struct {
	interim []int
	status  int
	head    string // as it came
	body    string
}

// readAnswer reads up to the final answer, which must be framed in one way only.
func readAnswer(conn *caller, method string) (*clientAnswer, error) {
	a := new(clientAnswer)
	for {
		head, err := peekHead(conn)
		if err != nil {
			return nil, err
		}
		res, err := http.ReadResponse(conn.in, &http.Request{Method: method})
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
func peekHead(conn *caller) (string, error) {
	for {
		b, _ := conn.in.Peek(conn.in.Buffered())
		if end := bytes.Index(b, []byte("\r\n\r\n")); end >= 0 {
			return string(b[:end+4]), nil
		}
		if _, err := conn.in.Peek(len(b) + 1); err != nil {
			return "", err
		}
	}
}

func (a *clientAnswer) judge(c *http1test.ResponseCase) error {
	if lengths, codings := a.count("content-length"), a.count("transfer-encoding"); lengths+codings > 1 || a.count("via") > 1 {
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
		// What breaks off was collected first: nothing of it was sent. A switch of
		// protocols was not asked for: Upgrade is not forwarded yet.
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
