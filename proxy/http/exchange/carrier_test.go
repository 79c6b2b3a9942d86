package exchange_test

import (
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/http/exchange"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
)

// A stored carries one exchange of a request that is whole in memory, with no connection
// to its client, and collects the answer.
type stored struct {
	env      exchange.Env
	x        exchange.Exchange
	now      time.Time
	request  []byte
	reader   http1.Reader
	head     http1.Head
	upstream []byte // what the target was sent
	answer   []byte
	end      exchange.End
	fx       exchange.Effects // those of all calls that are no bytes
}

// newStored begins with a request; granted says what the store answers, nil: nothing yet.
func newStored(t *testing.T, request string, granted *store.Answer) *stored {
	l, err := limit.NewFixed(10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	policy := decide.NewPolicy(l)
	c := &stored{now: time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC), request: []byte(request),
		reader: http1.NewRequestReader(&http1.Limits{})}
	c.env = exchange.Env{
		Settings: &exchange.Settings{BufferBytesMax: 8, BodyTimeout: time.Second, TargetTimeout: time.Second,
			StreamTimeout: time.Second, Pseudonym: "weir"},
		Policy: func() *decide.Policy { return policy },
		Ask: func(_ time.Time, _ *exchange.Exchange, _ *store.Ask, ans *store.Answer) bool {
			if granted == nil {
				return false
			}
			*ans = *granted
			return true
		},
		Refused: func(time.Time, *decide.Refusal) []byte { return []byte("d-1") },
	}
	c.x = exchange.New(&c.env, netip.MustParseAddr("192.0.2.7"), false)
	ev, err := c.reader.Next(c.request, &c.head)
	if err != nil || ev.Kind != http1.HeadDone {
		t.Fatalf("%q: %v, %v", request, ev.Kind, err)
	}
	c.request = c.request[ev.N:]
	c.x.HandleHead(c.now, &c.head, c.now, true)
	c.feed(t)
	return c
}

// feed brings as much of the body as is wanted, and collects the effects.
func (c *stored) feed(t *testing.T) {
	t.Helper()
	if c.x.Refused() {
		c.x.HandleUnread(c.now, true)
	}
	for c.x.Reads() {
		ev, err := c.reader.Next(c.request, &c.head)
		if err != nil {
			t.Fatal(err)
		}
		c.request = c.request[ev.N:]
		if ev.Kind == http1.End {
			c.x.HandleBodyEnd(c.now, ev.Trailer)
		} else {
			c.x.HandleBody(c.now, ev.Data)
		}
	}
	var fx exchange.Effects
	c.x.MoveEffects(&fx)
	c.answer = append(c.answer, fx.Client...)
	c.upstream = append(c.upstream, fx.Upstream...)
	if c.x.Ended() {
		c.end, _ = c.x.End()
	}
	switch c.fx = fx; {
	case fx.Stream:
		c.x.HandleStream(c.now, true)
		c.feed(t)
	case fx.Admit:
		c.x.HandleAdmitted(c.now)
		c.feed(t)
	}
}

// wants fails unless the answer is one of that status with that body, and the exchange has
// ended with it.
func (c *stored) wants(t *testing.T, status int, body string) {
	t.Helper()
	var head http1.Head
	var got strings.Builder
	reader := http1.NewResponseReader(&http1.Limits{})
	for in := c.answer; ; {
		ev, err := reader.Next(in, &head)
		if err == nil && ev.Kind == http1.NeedMore {
			ev, err = reader.EOF()
		}
		if err != nil {
			t.Fatalf("%q: %v", c.answer, err)
		}
		in = in[ev.N:]
		got.Write(ev.Data)
		if ev.Kind == http1.End {
			break
		}
	}
	if head.Status != status || got.String() != body || c.end == exchange.EndNone || !c.x.Deadline().IsZero() {
		t.Errorf("%d %q, end %d, want %d %q", head.Status, got.String(), c.end, status, body)
	}
}

var (
	granted = &store.Answer{Granted: 1, Decisions: []limit.Decision{{Allowed: true, Limit: 10, Remaining: 9}}}
	refused = &store.Answer{Decisions: []limit.Decision{{Limit: 10, RetryAfter: limit.Never}}}
)

// A request in memory is an exchange like one that comes by a connection.
func TestStoredRequest(t *testing.T) {
	const small = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
	t.Run("forwarded", func(t *testing.T) {
		c := newStored(t, small, granted)
		c.x.HandleAcquired(c.now, "target:8081", false)
		c.feed(t)
		if !strings.HasSuffix(string(c.upstream), "\r\n\r\nok") {
			t.Errorf("the target is sent %q", c.upstream)
		}
		c.x.HandleUpstream(c.now, []byte("HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nyes"))
		c.feed(t)
		c.wants(t, 201, "yes")
		if c.fx.Release != exchange.ReleaseKeep || c.fx.Report == nil || c.fx.Report.Decision != exchange.Forwarded {
			t.Errorf("effects %+v", c.fx)
		}
	})
	t.Run("refused", func(t *testing.T) {
		c := newStored(t, small, refused)
		c.wants(t, 429, `{"error":"rate limit exceeded","rule":"global","reason":"the limit can never hold this request's cost","decision":"d-1"}`+"\n")
	})
	t.Run("decided later", func(t *testing.T) {
		c := newStored(t, small, nil)
		if c.x.Reads() || c.x.Refused() {
			t.Fatal("it goes on undecided")
		}
		c.x.HandleAnswer(c.now, granted)
		if c.feed(t); c.fx.Acquire != exchange.AcquireAny {
			t.Fatalf("effects %+v", c.fx)
		}
		c.x.HandleExhausted(c.now, false, 0)
		c.feed(t)
		c.wants(t, 503, `{"error":"no target can be reached"}`+"\n")
	})
	t.Run("refused later", func(t *testing.T) {
		c := newStored(t, small, nil)
		c.x.HandleAnswer(c.now, refused)
		c.feed(t)
		c.wants(t, 429, `{"error":"rate limit exceeded","rule":"global","reason":"the limit can never hold this request's cost","decision":"d-1"}`+"\n")
	})
	t.Run("streamed both ways", func(t *testing.T) {
		c := newStored(t,
			"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n0123456789ab\r\n0\r\n\r\n", granted)
		if !c.fx.Long || c.x.Reads() {
			t.Fatalf("effects %+v", c.fx)
		}
		c.x.HandleAcquired(c.now, "target:8081", false)
		c.feed(t)
		if !strings.HasSuffix(string(c.upstream), "\r\n\r\nc\r\n0123456789ab\r\n0\r\n\r\n") {
			t.Errorf("the target is sent %q", c.upstream)
		}
		c.x.HandleUpstream(c.now, []byte("HTTP/1.1 200 OK\r\n\r\nall that "))
		c.feed(t)
		c.x.HandleUpstream(c.now, []byte("there is"))
		c.feed(t)
		c.x.HandleUpstreamClosed(c.now, io.EOF)
		c.feed(t)
		c.wants(t, 200, "all that there is")
	})
	t.Run("broken off", func(t *testing.T) {
		c := newStored(t, small, granted)
		c.x.HandleAcquired(c.now, "target:8081", false)
		c.x.HandleUpstream(c.now, []byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nye"))
		c.x.HandleUpstreamClosed(c.now, io.ErrUnexpectedEOF)
		c.feed(t)
		c.wants(t, 502, `{"error":"the target closed the connection before its answer was complete"}`+"\n")
	})
	t.Run("no answer in time", func(t *testing.T) {
		c := newStored(t, small, granted)
		c.x.HandleAcquired(c.now, "target:8081", false)
		c.feed(t)
		c.x.HandleExpired(c.x.Deadline())
		c.feed(t)
		c.wants(t, 504, `{"error":"the target did not answer in time"}`+"\n")
	})
	t.Run("given up", func(t *testing.T) {
		c := newStored(t, small, granted)
		c.x.HandleLeft()
		c.feed(t)
		if c.fx.Acquire != exchange.AcquireCancel || c.fx.Report == nil || len(c.answer) > 0 || !c.x.Idle() {
			t.Errorf("effects %+v, answer %q", c.fx, c.answer)
		}
	})
}
