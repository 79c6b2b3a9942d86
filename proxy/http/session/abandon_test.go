package session

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/proxy/http/exchange"
)

// An answer is read to its end, and then the connection can be used again.
func ExampleUpstream_HandleAbandoned() {
	x := exchange.AbandonedExchange{Reusable: true, SizeMax: 1 << 20}
	u := NewUpstream(&http1.Limits{}, new(http1.Head))
	for _, piece := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", "llo"} {
		_, end := u.HandleAbandoned(&x, []byte(piece))
		fmt.Println(x.Status, end == AbandonedKeep)
	}
	// Output:
	// 200 false
	// 200 true
}

// readAbandoned feeds the answer to a request of a method in pieces of at most n bytes, until it has ended.
func readAbandoned(x *exchange.AbandonedExchange, method http1.Method, answer string, n int) (end AbandonedEnd,
	left int) {
	u := NewUpstream(&http1.Limits{}, new(http1.Head))
	r := exchange.NewRequest(&http1.Head{Method: method})
	u.Append(nil, &exchange.Effects{Forward: &r}, "")
	unread, rest := "", answer
	for rest != "" && end == AbandonedNone {
		piece := rest[:min(n, len(rest))]
		rest = rest[len(piece):]
		unread += piece
		taken := 0
		taken, end = u.HandleAbandoned(x, []byte(unread))
		unread = unread[taken:]
	}
	return end, len(unread) + len(rest)
}

func TestAbandonedEnds(t *testing.T) {
	const ok, interim = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n"
	const small, large = "abcdefgh", "abcdefghi" // at the bound, and one more
	for name, test := range map[string]struct {
		method http1.Method
		used   bool // the connection cannot be used again
		answer string
		status int
		want   AbandonedEnd
	}{
		"nothing yet":  {answer: "HTTP/1.1 200 O", want: AbandonedNone},
		"a head":       {answer: ok + "Content-Length: 8\r\n\r\n", status: 200, want: AbandonedNone},
		"at the bound": {answer: ok + "Content-Length: 8\r\n\r\n" + small, status: 200, want: AbandonedKeep},
		"no body":      {answer: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, want: AbandonedKeep},
		"HEAD": {method: http1.HEAD, answer: ok + "Content-Length: 900\r\n\r\n", status: 200,
			want: AbandonedKeep},
		"after interim ones": {answer: interim + interim + "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
			status: 404, want: AbandonedKeep},
		"only an interim one": {answer: interim, want: AbandonedNone},
		"beyond the bound":    {answer: ok + "Content-Length: 9\r\n\r\nabc", status: 200, want: AbandonedClose},
		"chunks": {answer: ok + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", status: 200,
			want: AbandonedClose},
		"until the close": {answer: ok + "\r\nabc", status: 200, want: AbandonedClose},
		"it ends": {answer: ok + "Connection: close\r\nContent-Length: 8\r\n\r\n" + small, status: 200,
			want: AbandonedClose},
		"not reusable": {used: true, answer: ok + "Content-Length: 0\r\n\r\n", status: 200, want: AbandonedClose},
		"offers a login": {answer: "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: " +
			"NTLM\r\nContent-Length: 0\r\n\r\n", status: 401, want: AbandonedClose},
		"a switch of protocol": {answer: "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n", want: AbandonedClose},
		"not HTTP":             {answer: "HTTP/2000 NO\r\n\r\n", want: AbandonedClose},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 7, len(test.answer)} {
				x := exchange.AbandonedExchange{Reusable: !test.used, SizeMax: int64(len(small))}
				if end, _ := readAbandoned(&x, test.method, test.answer, n); end != test.want || x.Status != test.status {
					t.Errorf("in pieces of %d: end %d, status %d, want %d and %d", n, end, x.Status, test.want, test.status)
				}
			}
		})
	}
	for name, answer := range map[string]string{
		"a large answer": ok + "Content-Length: 9\r\n\r\n" + large,
		"chunks":         ok + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	} {
		x := exchange.AbandonedExchange{Reusable: true, SizeMax: int64(len(small))}
		if end, left := readAbandoned(&x, http1.GET, answer, len(answer)); end != AbandonedKeep || left > 0 {
			t.Errorf("%s that is complete with its head: end %d, %d bytes unread", name, end, left)
		}
	}
}

// A connection with more bytes than the answer has cannot be used again.
func TestAbandonedMoreThanTheAnswer(t *testing.T) {
	x := exchange.AbandonedExchange{Reusable: true}
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + strings.Repeat("x", 10)
	if end, _ := readAbandoned(&x, http1.GET, answer, len(answer)); end != AbandonedClose {
		t.Errorf("end %d", end)
	}
}
