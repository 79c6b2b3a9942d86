package relay

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// serving is a server that answers with its name.
func serving(t *testing.T, name string) func() string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String
}

// newRelay returns a relay that the test closes.
func newRelay(t *testing.T, to func() string) *Relay {
	t.Helper()
	r := testkit.Must(New(to))(t)
	t.Cleanup(r.Close)
	return r
}

const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func answer(t *testing.T, c *testkit.Conn, want string) {
	t.Helper()
	c.Send(request)
	if res, body := c.Answer("GET"); res.StatusCode != 200 || body != want {
		t.Errorf("answered %d %q, want %q", res.StatusCode, body, want)
	}
}

func TestRelay(t *testing.T) {
	a, b := serving(t, "a"), serving(t, "b")
	r := newRelay(t, a)
	old := testkit.Dial(t, r.Addr())
	answer(t, old, "a")
	r.Redirect(b)
	answer(t, old, "a") // as it was
	answer(t, testkit.Dial(t, r.Addr()), "b")
	const by = 20 * time.Millisecond
	r.Delay(by)
	began := time.Now()
	if answer(t, old, "a"); time.Since(began) < by {
		t.Error("an answer is not slowed")
	}
	r.Delay(0)
	r.Cut()
	old.Closed()
	answer(t, testkit.Dial(t, r.Addr()), "b")
}

// What is sent over a connection that loses is lost for good; a later one does not.
func TestLose(t *testing.T) {
	r := newRelay(t, serving(t, "a"))
	c := testkit.Must(net.Dial("tcp", r.Addr()))(t)
	defer c.Close()
	testkit.Eventually(t, "it is carried", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.pairs) == 1 })
	r.Drop(true)
	if _, err := c.Write([]byte(request)); err != nil {
		t.Error(err)
	}
	r.Drop(false)
	answer(t, testkit.Dial(t, r.Addr()), "a")
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("what was lost is answered")
	}
}

// A carrier is told the connections apart, and both ways; what it fails to carry ends one.
func TestThrough(t *testing.T) {
	r := newRelay(t, serving(t, "a"))
	r.SetFilter(func(number int, answer bool, piece []byte, write func([]byte) error) error {
		if number == 1 && answer {
			return net.ErrClosed
		}
		return write(piece)
	})
	first := testkit.Dial(t, r.Addr())
	answer(t, first, "a")
	second := testkit.Dial(t, r.Addr())
	second.Send(request)
	second.Closed()
	answer(t, first, "a")
}
