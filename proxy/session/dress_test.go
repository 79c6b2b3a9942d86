package session

import (
	"strings"
	"testing"
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
		b.s.HandleClient(b.now, []byte("POST /accept: HTTP/1.1\r\nHost: accept:\r\n"+accept+"Content-Length: 21\r\n\r\na\r\nAccept: text/html\r\n"))
		if fx := b.s.Effects(); fx.Acquire != AcquireAny {
			t.Fatalf("it wants %+v", fx)
		}
		b.env.head.Fields = nil // of another request by now
		b.s.HandleShed(b.now, []byte("d-1"))
		if got := string(b.s.Effects().Client); !strings.HasPrefix(got, want) || !strings.Contains(got, "d-1") || strings.Contains(got, "text/html") != strings.Contains(got, "\r\nVary: Accept\r\n") {
			t.Errorf("%q: %s", accept, got)
		}
	}
}
