package exchange_test

import (
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
	forward  exchange.Request
	upload   string // what the target was sent of the body
	uploaded bool
	response exchange.Response
	body     string // of the answer
	complete bool
	end      exchange.End
	admits   bool             // a place was asked for
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
	c.x.HandleHead(c.now, &c.head, c.now)
	c.feed(t)
	return c
}

// feed brings as much of the body as is wanted, and collects the effects.
func (c *stored) feed(t *testing.T) {
	t.Helper()
	if c.x.Refused() {
		c.x.HandleUnread(c.now, true)
	}
	if c.x.Held() && c.x.Reads() {
		if c.collect().Stream { // otherwise it may be the head of a request whose body follows
			c.x.HandleStream(c.now, true)
			c.collect()
		}
	}
	for c.x.Reads() {
		ev, err := c.reader.Next(c.request, &c.head)
		if err != nil {
			t.Fatal(err)
		}
		c.request = c.request[ev.N:]
		if ev.Kind == http1.NeedMore {
			c.x.HandleBodyPause(c.now)
			break
		}
		if ev.Kind == http1.End {
			c.x.HandleBodyEnd(c.now)
		} else {
			c.x.HandleBody(c.now, ev.Data)
		}
	}
	fx := c.collect()
	if c.x.Ended() {
		c.end, _ = c.x.End()
	}
	switch c.fx = fx; {
	case fx.Stream:
		c.x.HandleStream(c.now, true)
		c.feed(t)
	case fx.Admit:
		c.admits = true
		c.x.HandleAdmitted(c.now)
		c.feed(t)
	}
}

// collect collects the effects, and returns them.
func (c *stored) collect() (fx exchange.Effects) {
	fx = *c.x.MoveEffects(nil)
	if fx.Response != nil {
		c.response = *fx.Response
	}
	c.body, c.complete = c.body+string(fx.Body), c.complete || fx.Complete
	if fx.Forward != nil {
		c.forward, c.upload = *fx.Forward, string(fx.Forward.Body)
	}
	c.upload, c.uploaded = c.upload+string(fx.Upload), c.uploaded || fx.Uploaded
	return fx
}

// wants fails unless the answer is one of that status with that body, and the exchange has
// ended with it.
func (c *stored) wants(t *testing.T, status int, body string) {
	t.Helper()
	if c.response.Status != status || c.body != body || !c.complete || c.end != exchange.EndAnswered ||
		!c.x.Deadline().IsZero() {
		t.Errorf("%d %q, complete %t, end %d, want %d %q", c.response.Status, c.body, c.complete, c.end, status, body)
	}
}

// answers has the target answer with a head and pieces of a body.
func (c *stored) answers(t *testing.T, h http1.Head, pieces ...string) {
	c.x.HandleBytes()
	c.x.HandleResponseHead(c.now, &h)
	for _, p := range pieces {
		c.x.HandleResponseBody([]byte(p))
		c.x.HandlePause(c.now)
		c.feed(t)
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
		c.x.HandleAcquired(c.now, false)
		c.feed(t)
		if f := &c.forward; string(f.MethodText()) != "POST" || string(f.Target()) != "/" || f.Length != 2 ||
			c.upload != "ok" || !c.uploaded {
			t.Errorf("the target is sent %+v, body %q, all %t", f, c.upload, c.uploaded)
		}
		c.answers(t, http1.Head{Status: 201, Framing: http1.BodyLength, Length: 3, KeepAlive: true}, "ye")
		c.x.HandleResponseBody([]byte("s"))
		c.x.HandleResponseEnd(c.now, true)
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
		c.x.HandleDecision(c.now, granted)
		if c.feed(t); c.fx.Acquire != exchange.AcquireAny {
			t.Fatalf("effects %+v", c.fx)
		}
		c.x.HandleExhausted(c.now, false, 0)
		c.feed(t)
		c.wants(t, 503, `{"error":"no target can be reached"}`+"\n")
	})
	t.Run("refused later", func(t *testing.T) {
		c := newStored(t, small, nil)
		c.x.HandleDecision(c.now, refused)
		c.feed(t)
		c.wants(t, 429, `{"error":"rate limit exceeded","rule":"global","reason":"the limit can never hold this request's cost","decision":"d-1"}`+"\n")
	})
	t.Run("streamed both ways", func(t *testing.T) {
		c := newStored(t,
			"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n0123456789ab\r\n0\r\n\r\n", granted)
		if !c.fx.Long || c.x.Reads() {
			t.Fatalf("effects %+v", c.fx)
		}
		c.x.HandleAcquired(c.now, false)
		c.feed(t)
		if c.forward.Framing != http1.BodyChunked || c.upload != "0123456789ab" || !c.uploaded {
			t.Errorf("the target is sent %+v, body %q, all %t", c.forward, c.upload, c.uploaded)
		}
		c.answers(t, http1.Head{Status: 200, Framing: http1.BodyUntilClose, Length: -1}, "all that ", "there is")
		c.x.HandleUpstreamClosed(c.now, true)
		c.feed(t)
		c.wants(t, 200, "all that there is")
	})
	t.Run("broken off", func(t *testing.T) {
		c := newStored(t, small, granted)
		c.x.HandleAcquired(c.now, false)
		c.answers(t, http1.Head{Status: 200, Framing: http1.BodyLength, Length: 3}, "ye")
		c.x.HandleUpstreamClosed(c.now, false)
		c.feed(t)
		c.wants(t, 502, `{"error":"the target closed the connection before its answer was complete"}`+"\n")
	})
	t.Run("no answer in time", func(t *testing.T) {
		c := newStored(t, small, granted)
		c.x.HandleAcquired(c.now, false)
		c.feed(t)
		c.x.HandleExpired(c.x.Deadline())
		c.feed(t)
		c.wants(t, 504, `{"error":"the target did not answer in time"}`+"\n")
	})
	t.Run("given up", func(t *testing.T) {
		c := newStored(t, small, granted)
		c.x.HandleClientClosed()
		c.feed(t)
		if c.fx.Acquire != exchange.AcquireCancel || c.fx.Report == nil || c.response.Status > 0 || !c.x.Idle() {
			t.Errorf("effects %+v, answer %+v", c.fx, c.response)
		}
	})
}

// A request that the target has not processed is sent up to three times more whatever its method, and the limiter
// is not asked again; one that it may have processed is not.
func TestStreamReset(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
	sent := func() *stored {
		c := newStored(t, post, granted)
		c.x.HandleAcquired(c.now, true)
		c.feed(t)
		return c
	}
	t.Run("not processed", func(t *testing.T) {
		c := sent()
		for range 3 {
			c.x.HandleUpstreamReset(c.now, true)
			if c.feed(t); c.fx.Acquire != exchange.AcquireFresh || c.fx.Release != exchange.ReleaseDiscard ||
				c.fx.Decided != nil || c.complete {
				t.Fatalf("effects %+v", c.fx)
			}
			c.upload, c.uploaded = "", false
			c.x.HandleAcquired(c.now, false)
			if c.feed(t); c.upload != "ok" || !c.uploaded {
				t.Errorf("the target is sent body %q, all %t", c.upload, c.uploaded)
			}
		}
		c.x.HandleUpstreamReset(c.now, true)
		c.feed(t)
		c.wants(t, 503, `{"error":"the target has refused the request without processing it"}`+"\n")
		if o := c.fx.Report; o == nil || !o.Sent.IsZero() || !o.Retried {
			t.Errorf("outcome %+v", o)
		}
	})
	t.Run("not processed, but sent in pieces", func(t *testing.T) { // what came with the head is not the whole body
		c := newStored(t, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n", granted)
		c.x.HandleAcquired(c.now, true)
		c.x.HandleBody(c.now, []byte("k"))
		c.x.HandleBodyEnd(c.now)
		c.feed(t)
		c.x.HandleAdmitted(c.now)
		if c.feed(t); c.upload != "ok" || !c.uploaded {
			t.Errorf("the target is sent body %q, all %t", c.upload, c.uploaded)
		}
		c.x.HandleUpstreamReset(c.now, true)
		c.feed(t)
		c.wants(t, 503, `{"error":"the target has refused the request without processing it"}`+"\n")
	})
	t.Run("perhaps processed", func(t *testing.T) {
		c := sent()
		c.x.HandleUpstreamReset(c.now, false)
		c.feed(t)
		c.wants(t, 502, `{"error":"the target closed the connection before its answer was complete"}`+"\n")
	})
	t.Run("after a part of the answer", func(t *testing.T) {
		c := sent()
		c.answers(t, http1.Head{Status: 200, Framing: http1.BodyLength, Length: 3, KeepAlive: true}, "ye")
		c.x.HandleUpstreamReset(c.now, true)
		c.feed(t)
		c.wants(t, 502, `{"error":"the target closed the connection before its answer was complete"}`+"\n")
	})
	t.Run("head too large", func(t *testing.T) {
		c := sent()
		c.x.HandleHeadTooLarge(c.now)
		c.feed(t)
		c.wants(t, 431, `{"error":"the target accepts no request with so large a head"}`+"\n")
		if c.fx.Release != exchange.ReleaseDiscard {
			t.Errorf("effects %+v", c.fx)
		}
	})
}

// A body that pauses is bounded like others until the answer is passed on. Only on a call of gRPC does the target work
// before the end of the body, so it needs a place from the start.
func TestBodyPause(t *testing.T) {
	for kind, grpc := range map[string]bool{"text/plain": false, "application/grpc": true} {
		paused := func(t *testing.T) *stored {
			c := newStored(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: "+kind+
				"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", granted)
			if c.fx.Acquire != exchange.AcquireAny || !c.fx.Long || c.fx.Partial == grpc {
				t.Fatalf("effects %+v", c.fx)
			}
			c.env.Settings.BodyRateMin, c.env.Settings.BodyTimeout = 1, 4*time.Second
			c.env.Settings.StreamTimeout = time.Minute
			c.x.HandleAcquired(c.now, false)
			c.feed(t)
			return c
		}
		// sends sends a piece of the body, or its end, after so long.
		sends := func(t *testing.T, c *stored, after time.Duration, chunk string) {
			c.now = c.now.Add(after)
			c.request = append(c.request, chunk...)
			c.feed(t)
		}
		// expire lets the deadline pass, and reports whether the client is at fault.
		expire := func(t *testing.T, c *stored) bool {
			c.now = c.x.Deadline()
			fault := c.x.HandleExpired(c.now)
			c.feed(t)
			return fault
		}
		left := func(c *stored) time.Duration { return c.x.Deadline().Sub(c.now) }
		t.Run(kind+", slow", func(t *testing.T) {
			c := paused(t)
			for range 3 {
				if got := left(c); got != 4*time.Second {
					t.Errorf("%v left for the next piece", got)
				}
				sends(t, c, 3*time.Second, "1\r\nb\r\n")
			}
			if got := left(c); got != time.Second {
				t.Errorf("%v left for enough of them", got)
			}
			fault := expire(t, c)
			if grpc { // it becomes a stream
				if got := left(c); got != time.Minute || fault {
					t.Errorf("%v left for the next message, want %v; at fault: %t", got, time.Minute, fault)
				}
				sends(t, c, 59*time.Second, "1\r\nb\r\n")
				fault = expire(t, c)
			}
			if r := c.fx.Report; !fault || r == nil || r.Status != 408 || r.Fault != exchange.FaultNone || !c.complete {
				t.Errorf("outcome %+v", r)
			}
		})
		t.Run(kind+", answered", func(t *testing.T) {
			c := paused(t)
			c.answers(t, http1.Head{Status: 200, Framing: http1.BodyChunked, Length: -1}, "y")
			if got := left(c); got != time.Minute || !c.x.Relays() {
				t.Errorf("%v left, relays %t", got, c.x.Relays())
			}
			sends(t, c, 59*time.Second, "1\r\nb\r\n")
			if sends(t, c, time.Second, "0\r\n\r\n"); c.upload != "ab" || !c.uploaded || c.fx.Admit {
				t.Errorf("the target is sent %q, all %t", c.upload, c.uploaded)
			}
			c.x.HandleResponseEnd(c.now, true)
			c.feed(t)
			c.wants(t, 200, "y")
		})
		t.Run(kind+", ended", func(t *testing.T) {
			c := paused(t)
			if sends(t, c, time.Second, "0\r\n\r\n"); !c.uploaded || c.admits == grpc || left(c) != time.Second {
				t.Errorf("all sent %t, asked for a place %t, %v left", c.uploaded, c.admits, left(c))
			}
		})
	}
}

// A call whose messages pause is a stream only if there is a place for one, and needs a place at the gate for its end.
func TestCallLasts(t *testing.T) {
	late := func() *stored {
		c := newStored(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", granted)
		c.x.HandleAcquired(c.now, false)
		c.feed(t)
		c.now = c.x.Deadline()
		c.x.HandleExpired(c.now)
		return c
	}
	c := late()
	c.feed(t)
	c.request = append(c.request, "0\r\n\r\n"...)
	if c.feed(t); !c.admits || !c.uploaded {
		t.Errorf("asked for a place %t, all sent %t, want both", c.admits, c.uploaded)
	}
	c = late()
	if !c.collect().Stream {
		t.Fatal("no place for a stream is asked for")
	}
	c.x.HandleStream(c.now, false)
	if c.feed(t); c.fx.Report == nil || c.fx.Report.Status != 408 {
		t.Errorf("without a place for a stream the outcome is %+v, want 408", c.fx.Report)
	}
}

// A target that counts down the time that the client of a call waits, too, resets the stream when that has passed.
// Whoever is first, the client is told the same.
func TestCallResetTooLate(t *testing.T) {
	const called = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc+json\r\nGrpc-Timeout: 50m\r\n" +
		"Content-Length: 2\r\n\r\nok"
	sent := func() *stored {
		c := newStored(t, called, granted)
		c.x.HandleAcquired(c.now, false)
		c.feed(t)
		return c
	}
	reset := func(c *stored, after time.Duration) *exchange.Outcome {
		c.now = c.now.Add(after)
		c.x.HandleUpstreamReset(c.now, false)
		c.feed(t)
		return c.fx.Report
	}
	for after, want := range map[time.Duration]string{49 * time.Millisecond: "14", 50 * time.Millisecond: "4"} {
		c := sent()
		o := reset(c, after)
		if got := string(c.response.Fields); !strings.Contains(got, "Grpc-Status: "+want+"\r\n") ||
			c.response.ContentType != "application/grpc+json" || c.fx.Release != exchange.ReleaseDiscard ||
			o == nil || (o.Fault == exchange.FaultNone) != (want == "4") {
			t.Errorf("after %v: %s %q, outcome %+v", after, c.response.ContentType, got, o)
		}
		c = sent()
		c.answers(t, http1.Head{Status: 200, Framing: http1.BodyUntilClose, Length: -1}, "part")
		if reset(c, after); c.end != exchange.EndIncomplete && want == "14" || c.end != exchange.EndTimedOut && want == "4" {
			t.Errorf("within the answer after %v: end %d", after, c.end)
		}
	}
}
