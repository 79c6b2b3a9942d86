package cycle_test

import (
	"strings"
	"testing"
	"time"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
)

var epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// A server answers each request at its end with 204.
type server struct {
	cycle.Cycle
	now   time.Time
	head  http1.Head
	left  []byte
	out   []byte
	how   cycle.Close
	asked bool // it waits with the answer
}

func newServer(times cycle.Timeouts) *server {
	return &server{Cycle: cycle.New(epoch, &times, nil), now: epoch}
}

// data shows what was not read and text, and returns how much of it was read.
func (s *server) data(text string) int {
	s.left = append(s.left, text...)
	n := s.HandleData(s.now, s.left, &s.head, s.handle)
	s.left = s.left[n:]
	return n
}

func (s *server) handle(now time.Time, e http1.Event, err error) {
	switch {
	case err != nil:
		s.Refuse(now)
		s.answer(http1.StatusOf(err))
	case e.Kind == http1.HeadDone:
		s.out = s.AppendContinue(s.out, &s.head)
	case e.Kind == http1.End && s.asked:
		s.Wait()
	case e.Kind == http1.End:
		s.answer(204)
	}
}

func (s *server) answer(status int) {
	s.out, _ = s.AppendAnswer(s.out, http1.LocalResponse{Status: status})
	s.how = s.End(s.now)
}

// took returns the status lines and Connection fields written since the last call.
func (s *server) took() string {
	var words []string
	for _, line := range strings.Split(string(s.out), "\r\n") {
		if strings.HasPrefix(line, "HTTP/1.1 ") {
			words = append(words, line[len("HTTP/1.1 "):][:3])
		} else if strings.HasPrefix(line, "Connection: ") {
			words = append(words, line[len("Connection: "):])
		}
	}
	s.out = nil
	return strings.Join(words, " ")
}

func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		in, out string
		left    int // bytes not read
		how     cycle.Close
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "204", 0, cycle.CloseNone},
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGE", "204 204", 2, cycle.CloseNone},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "204 close", 0, cycle.CloseDrained},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nmore", "204 close", 0, cycle.CloseLinger},
		{"GET / HTTP/1.0\r\n\r\n", "204 close", 0, cycle.CloseDrained},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "204 keep-alive", 0, cycle.CloseNone},
		{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", "100", 0, cycle.CloseNone},
		{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", "204", 0, cycle.CloseNone},
		{"GET\r\n\r\n", "400 close", 0, cycle.CloseLinger},
	} {
		s := newServer(cycle.Timeouts{Idle: time.Second})
		n := s.data(test.in)
		if got := s.took(); got != test.out || len(test.in)-n != test.left || s.how != test.how {
			t.Errorf("%q: %s, %d left, close %d; want %s, %d, %d", test.in, got, len(test.in)-n, s.how, test.out, test.left,
				test.how)
		}
	}
}

// Each state has its deadline, and none while an answer is awaited.
func TestDeadlines(t *testing.T) {
	const head, body = "PUT / HTTP/1.1\r\n", "Host: a\r\nContent-Length: 4\r\n\r\n"
	for _, test := range []struct {
		times cycle.Timeouts
		want  [5]time.Duration // after nothing, a part of a head, the head, two pieces of the body; relative to the start
	}{
		{cycle.Timeouts{Idle: 75 * time.Second, Head: 10 * time.Second, Body: 20 * time.Second},
			[5]time.Duration{75 * time.Second, 11 * time.Second, 22 * time.Second, 22 * time.Second}},
		{cycle.Timeouts{Idle: 75 * time.Second, Head: 10 * time.Second, Piece: 20 * time.Second},
			[5]time.Duration{75 * time.Second, 11 * time.Second, 22 * time.Second, 23 * time.Second}},
	} {
		s := newServer(test.times)
		s.asked = true
		for i, text := range []string{"", head, body, "ab", "cd"} {
			s.now = epoch.Add(time.Duration(i) * time.Second)
			s.data(text)
			want := epoch.Add(test.want[i])
			if test.want[i] == 0 {
				want = time.Time{}
			}
			if !s.Until.Equal(want) || !want.IsZero() && (s.Expired(want.Add(-1)) || !s.Expired(want)) {
				t.Errorf("%+v: %s until %v, want %v", test.times, s.State, s.Until, want)
			}
		}
		if s.State != cycle.AwaitingResponse || s.data("GET") != 0 || !s.More() {
			t.Errorf("%s reads on", s.State)
		}
	}
}

// After a drain began the next answer is the last.
func TestDrain(t *testing.T) {
	s := newServer(cycle.Timeouts{Idle: time.Second})
	s.data("GET / HTTP/1.1\r\n")
	if s.Drain() {
		t.Error("a request under way counts as nothing to answer")
	}
	s.data("Host: a\r\n\r\n")
	if got := s.took(); got != "204 close" || s.how != cycle.CloseDrained || s.State.String() != "closing" {
		t.Errorf("answered %s, close %d, %s", got, s.how, s.State)
	}
	s = newServer(cycle.Timeouts{})
	if idle := s.Drain(); !idle || s.Close() != cycle.CloseDrained {
		t.Errorf("an idle connection is drained at once: %t, close %d; want %d", idle, s.Close(), cycle.CloseDrained)
	}
}
