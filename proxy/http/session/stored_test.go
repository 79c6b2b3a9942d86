package session

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
	"weir/proxy/deferred"
	"weir/proxy/http/exchange"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// storedLimits are small, so that short requests reach them.
var storedLimits = http1.Limits{HeadBytes: 1 << 10, Fields: 40}

// FuzzStored plays the bytes of a client all of whose requests are refused and may be stored, and
// delivers what is stored. The delivery must be able to read each stored request, give it the same
// id, count it for the same key, and want a target for it.
func FuzzStored(f *testing.F) {
	for _, in := range []string{
		"POST /o HTTP/1.0\r\nContent-Length: 2\r\n\r\nab", // without Host
		"POST http://x/o HTTP/1.0\r\n" + strings.Repeat("a: 1\r\n", 39) + "Content-Length: 2\r\n\r\nab",
		"POST http://x?q HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /o HTTP/1.1\r\nHost: x\r\nConnection: a\r\n" + strings.Repeat("a: 1\r\n", 33) + "\r\n",
		"POST /o HTTP/1.1\r\nHost: x\r\nConnection: A, a,, ,b\r\na: 1\r\nb: 1\r\na: 2\r\n\r\n",
		"POST /o HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a: 1\r\n", 38) +
			"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"POST /o HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a: 1\r\n", 39) + "\r\n",
		"POST /o HTTP/1.1\r\nHost: x\r\na: " +
			strings.Repeat("1", storedLimits.HeadBytes-len("POST /o HTTP/1.1\r\nHost: x\r\na: \r\n\r\n")) + "\r\n\r\n",
		"POST /o HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("Via: 1.1 a\r\n", 16) + strings.Repeat("a: 1\r\n", 39) + "\r\n",
		"POST /o HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nX-Request-Id: mine2\r\n\r\n",
		"POST /o HTTP/1.1\r\nHost: x\r\nConnection: X-Request-Id\r\nX-Request-Id: not valid\r\n\r\n",
	} {
		f.Add([]byte(in), false)
		f.Add([]byte(in), true)
	}
	requests := http1test.Requests(f)
	for i := range requests {
		if in, err := requests[i].Bytes(); err == nil && len(in) < seedBytesMax {
			f.Add(bytes.Replace(in, []byte("GET "), []byte("POST "), 1), i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, client []byte, trusted bool) {
		p := newStoring(t)
		p.env.Settings.Head, p.env.Defers = storedLimits, true
		s := newPair(p.now, &p.env, p.s.Exchange.Remote, false)
		s.Exchange.Trusted = trusted
		for before := -1; before != len(client); {
			before = len(client)
			client = client[s.HandleClient(p.now, client):]
			if fx := s.Effects(p.now); fx.Store != nil {
				deliver(t, fx.Store, s)
				s.Exchange.HandleDeferred(p.now, &deferred.PutResult{Outcome: deferred.Accepted})
				s.Effects(p.now)
			}
		}
	})
}

// newStoring returns a player whose requests are refused by a rule that stores them.
func newStoring(t *testing.T) *player {
	p := newPlayer()
	set, err := rule.Read([]byte(
		`rules: [{id: all, key: ["header:a", host, path], limit: {algorithm: token, capacity: 10, fillRate: 2}, defer: {when: always}}]`), rule.Options{Defers: true})
	if err != nil {
		t.Fatal(err)
	}
	p.policy, p.limit = p.policy.With(set, "7"), "deny 1"
	p.env.Settings.RequestID, p.env.Random = true, rand.NewChaCha8([32]byte{})
	p.env.Settings.DeferPath, p.env.Settings.DeferBodyMax = "/deferred/", 64
	return p
}

// deliver delivers the request that a session stores.
func deliver(t *testing.T, k *exchange.DeferredRequest, from *pair) {
	p := newStoring(t)
	p.env.Random = rand.NewChaCha8([32]byte{1})
	p.env.Settings.Head, p.env.Delivery = StoredHeadLimits(), true
	line := ""
	p.env.Ask = func(_ time.Time, _ *exchange.Exchange, ask *store.Ask, ans *store.Answer) bool {
		line = string(ask.Counters[1].Key)
		*ans = answerFor("allow", len(ask.Counters))
		return true
	}
	raw := AppendRequestFields(nil, k.Request, "")
	raw = http1.AppendHeadEnd(http1.AppendFieldInt(raw, "Content-Length", int64(len(k.Body))))
	raw = append(raw, k.Body...)
	s := newPair(p.now, &p.env, k.Client, false)
	s.Exchange.Trusted = from.Exchange.Trusted
	for in := raw; ; {
		n := s.HandleClient(p.now, in)
		fx := s.Effects(p.now)
		in = in[n:]
		switch {
		case fx.Acquire == exchange.AcquireAny && line == string(k.Line) &&
			string(s.Exchange.RequestID()) == string(from.Exchange.RequestID()):
			return
		case fx.Acquire != exchange.AcquireNone || n == 0 || fx.Close != CloseNone:
			t.Fatalf("the delivery of %q for key %q, stored for %q, has the id %q, and answers %q", raw, line, k.Line,
				s.Exchange.RequestID(), fx.Client)
		}
	}
}
