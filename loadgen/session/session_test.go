package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

// Each command of a script has the effects that follow from it. Times are milliseconds since the
// start. Each block starts with a new session.
func TestScripts(t *testing.T) {
	testkit.RunScripts(t, func() func([]string) (string, error) {
		return func(commands []string) (string, error) {
			p := &player{settings: LoopSettings{Method: http1.GET, KeepAlive: true, Timeout: 100 * time.Millisecond}}
			var effects strings.Builder
			for _, line := range commands {
				effect, err := p.do(line)
				if err != nil {
					return "", fmt.Errorf("%s: %w", line, err)
				}
				effects.WriteString(effect + "\n")
			}
			return effects.String(), nil
		}
	})
}

// A player plays one block of a script.
type player struct {
	settings LoopSettings
	session  Session
	made     bool
	unread   []byte
}

func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

// do runs a command: "terms METHOD [once]", or "MS command …".
func (p *player) do(line string) (string, error) {
	if rest, ok := strings.CutPrefix(line, "terms "); ok {
		method, once := strings.CutSuffix(rest, " once")
		p.settings.Method, p.settings.KeepAlive = http1.MethodOf([]byte(method)), !once
		return "ok", nil
	}
	if !p.made {
		p.session, p.made = New(&p.settings), true
	}
	stamp, rest, _ := strings.Cut(line, " ")
	ms, err := strconv.Atoi(stamp)
	if err != nil {
		return "", err
	}
	verb, rest, _ := strings.Cut(rest, " ")
	now := at(ms)
	switch verb {
	case "send":
		due, last := strings.CutSuffix(rest, " last")
		dueMs, err := strconv.Atoi(strings.TrimPrefix(due, "due="))
		p.session.HandleSent(now, at(dueMs), last)
		return fmt.Sprintf("deadline %d", p.session.Deadline().UnixMilli()), err
	case "data":
		b, err := strconv.Unquote(rest)
		p.unread = append(p.unread, b...)
		n, e := p.session.HandleData(now, p.unread)
		p.unread = p.unread[n:]
		return p.show(e), err
	case "expired":
		return p.show(p.session.HandleExpired(now)), nil
	case "closed":
		return p.show(p.session.HandleClosed(now, rest == "orderly")), nil
	}
	return "", errors.New("unknown command")
}

// show is what happened, as a line of the script.
func (p *player) show(e Effects) string {
	var words []string
	if e.Done {
		o := p.session.Outcome()
		words = append(words, fmt.Sprintf("done %s", o.Class()))
		if o.Status != 0 {
			words = append(words, strconv.Itoa(o.Status))
		}
		if r := o.Cause(); r != record.NoError {
			words = append(words, r.String())
		}
		words = append(words, fmt.Sprintf("latency=%v service=%v", o.Done.Sub(o.Due), o.Done.Sub(o.Start)))
	}
	if e.Again {
		words = append(words, fmt.Sprintf("again due=%d", p.session.Due().UnixMilli()))
	}
	if e.Close {
		words = append(words, "close")
	}
	return strings.Join(append(words, "→ "+p.session.state.String()), " ")
}

// However an answer is cut into pieces, the outcome is the same.
func TestSplitsChangeNothing(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many Requests\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc",
	} {
		whole := outcome([][]byte{[]byte(answer)})
		pieces := [][][]byte{http1test.ByteByByte([]byte(answer))}
		for i := 1; i < len(answer); i++ {
			pieces = append(pieces, http1test.SplitAt([]byte(answer), i))
		}
		for _, p := range pieces {
			if got := outcome(p); got != whole {
				t.Errorf("%q in %d pieces ends with %q, whole with %q", answer, len(p), got, whole)
			}
		}
	}
}

// outcome is how an exchange ends when the answer comes in the given pieces.
// What follows an answer in a piece of its own is met by an idle session.
func outcome(pieces [][]byte) string {
	settings := LoopSettings{Method: http1.GET, KeepAlive: true, Timeout: time.Second}
	s := New(&settings)
	s.HandleSent(at(1), at(0), false)
	var unread []byte
	seen, closed := "nothing", false
	for _, p := range pieces {
		unread = append(unread, p...)
		n, e := s.HandleData(at(2), unread)
		unread = unread[n:]
		if e.Done {
			seen = fmt.Sprint(s.Outcome().Status, s.Outcome().Cause())
		}
		closed = closed || e.Close
	}
	return fmt.Sprint(seen, " closed=", closed)
}

func TestExchangeAllocatesNothing(t *testing.T) {
	settings := LoopSettings{Method: http1.GET, KeepAlive: true, Timeout: time.Second}
	s := New(&settings)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK")
	n := testing.AllocsPerRun(1000, func() {
		s.HandleSent(at(1), at(0), false)
		if _, e := s.HandleData(at(2), answer); !e.Done || e.Close {
			t.Fatal("the answer does not end the exchange")
		}
	})
	if n != 0 {
		t.Errorf("an exchange allocates %v times", n)
	}
}

func ExampleSession() {
	settings := LoopSettings{Method: http1.GET, KeepAlive: true, Timeout: time.Second}
	s := New(&settings)
	due := time.Unix(0, 0)
	s.HandleSent(due.Add(time.Millisecond), due, false) // a millisecond late
	_, e := s.HandleData(due.Add(3*time.Millisecond), []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	o := s.Outcome()
	fmt.Println(e.Done, o.Status, "latency", o.Done.Sub(o.Due), "service", o.Done.Sub(o.Start))
	// Output: true 200 latency 3ms service 2ms
}

// Whatever comes, an exchange ends at most once, and bytes are never consumed
// beyond what was shown.
func FuzzSession(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"), true)
	f.Add([]byte("HTTP/1.0 200 OK\r\n\r\nuntil close"), false)
	f.Fuzz(func(t *testing.T, answer []byte, orderly bool) {
		settings := LoopSettings{Method: http1.GET, KeepAlive: true, Timeout: time.Second}
		s := New(&settings)
		s.HandleSent(at(0), at(0), false)
		n, e := s.HandleData(at(1), answer)
		if n < 0 || n > len(answer) {
			t.Fatalf("done with %d of %d bytes", n, len(answer))
		}
		c := s.HandleClosed(at(2), orderly)
		if e.Done == (c.Done || c.Again) {
			t.Fatalf("the exchange ended %v by data and %v by the close", e, c)
		}
	})
}

func BenchmarkExchange(b *testing.B) {
	settings := LoopSettings{Method: http1.GET, KeepAlive: true, Timeout: time.Second}
	s := New(&settings)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK")
	for b.Loop() {
		s.HandleSent(at(1), at(0), false)
		s.HandleData(at(2), answer)
	}
}
