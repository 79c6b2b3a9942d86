package session

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/proxy/http/exchange"
)

// What a gate sheds has the form that its client wants, though the head has gone.
func TestShedHasForms(t *testing.T) {
	for accept, want := range map[string]string{
		"Accept: text/html,*/*;q=0.8\r\n": "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html; charset=utf-8\r\n",
		"aCCEPT: text/html\r\n":           "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html; charset=utf-8\r\n",
		"Accept: */*\r\n":                 "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n",
		"":                                "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n",
	} {
		b := newBench(t, 10)
		b.s.HandleClient(b.now,
			[]byte("POST /accept: HTTP/1.1\r\nHost: accept:\r\n"+accept+"Content-Length: 21\r\n\r\na\r\nAccept: text/html\r\n"))
		if fx := b.s.Effects(b.now); fx.Acquire != exchange.AcquireAny {
			t.Fatalf("it wants %+v", fx)
		}
		b.env.head.Fields = nil // of another request by now
		b.s.Exchange.HandleShed(b.now, []byte("d-1"))
		if got := string(b.s.Effects(b.now).Client); !strings.HasPrefix(got, want) || !strings.Contains(got, "d-1") ||
			strings.Contains(got, "text/html") != strings.Contains(got, "\r\nVary: Accept\r\n") {
			t.Errorf("%q: %s", accept, got)
		}
	}
}

// The body of a request to an own endpoint says nothing about the form of a refusal.
func TestOwnBodyHasNoForm(t *testing.T) {
	b := newBench(t, 10)
	short := false
	b.env.Settings.BufferBytesMax, b.env.Overloaded = 32, func(netip.Addr) bool { return short }
	b.s.HandleClient(b.now,
		[]byte("POST /config/limits HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nAccept: text/html\r\n"))
	b.s.Effects(b.now)
	short = true
	b.s.HandleClient(b.now, []byte("0123456789abcdef"))
	if got := string(b.s.Effects(b.now).Client); !strings.HasPrefix(got, "HTTP/1.1 503 ") ||
		!strings.Contains(got, "application/json") {
		t.Errorf("%s", got)
	}
}

// The form is that which the client of a streamed upload wanted, not that of another
// request that the loop has read since.
func TestUploadKeepsForm(t *testing.T) {
	b := newBench(t, 10)
	b.env.Settings.BufferBytesMax = 4
	b.s.HandleClient(b.now, []byte("POST / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nContent-Length: 100\r\n\r\n"))
	b.s.Effects(b.now)
	b.s.Exchange.HandleAcquired(b.now, true)
	b.s.Effects(b.now)
	b.s.HandleClient(b.now, []byte("0123456789"))
	b.s.Effects(b.now)
	other := newPair(b.now, b.s.env, b.s.Exchange.Remote, false)
	other.HandleClient(b.now, []byte("GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n"))
	other.Effects(b.now)
	b.s.HandleUpstream(b.now, []byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789"))
	b.s.Effects(b.now)
	b.s.Exchange.HandleStream(b.now.Add(time.Hour), false)
	if got := string(b.s.Effects(b.now).Client); !strings.HasPrefix(got, "HTTP/1.1 502 ") ||
		!strings.Contains(got, "application/json") {
		t.Errorf("%s", got)
	}
}
