package session

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
)

// converse feeds stream to a new Session in pieces of the given lengths, in
// turn, and answers every ask; it returns all that was sent, the exchanges, and
// how the connection was closed.
func converse(stream []byte, lengths ...int) (sent string, exchanges []Exchange, how cycle.Close) {
	var sh LoopState
	s := New(epoch, &sh)
	var unread []byte
	for turn := 0; len(stream) > 0 && how == cycle.CloseNone; turn++ {
		n := min(lengths[turn%len(lengths)], len(stream))
		unread = append(unread, stream[:n]...)
		stream = stream[n:]
		n = s.HandleData(epoch, unread)
		for sh.Await != AwaitNone {
			if sh.Await == AwaitService {
				s.HandleAnswer(epoch, 200)
			} else {
				s.HandleReply(epoch, 200, nil, bytes.Clone(sh.Raw))
			}
			n += s.HandleData(epoch, unread[n:])
		}
		unread = unread[n:]
		how = sh.Close
	}
	return string(sh.Out), sh.Answered, how
}

const mixed = "GET /api/test HTTP/1.1\r\nHost: x\r\n\r\n" +
	"POST /api/test HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello" +
	"\r\nHEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" +
	"POST /model HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n6\r\n " +
	"world\r\n0\r\nT: 1\r\n\r\n" +
	"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n" +
	"GET /api/test HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" +
	"GET /api/test HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" +
	"GET /never HTTP/1.1\r\nHost: x\r\n\r\n"

// However the input is split, the output is the same.
func TestSplittingChangesNothing(t *testing.T) {
	want, exchanges, how := converse([]byte(mixed), len(mixed))
	if len(exchanges) != 7 || how != cycle.CloseLinger {
		t.Fatalf("%d exchanges and close %d:\n%s", len(exchanges), how, want)
	}
	check := func(lengths ...int) {
		t.Helper()
		got, some, how := converse([]byte(mixed), lengths...)
		if got != want || len(some) != len(exchanges) || how == cycle.CloseNone {
			t.Fatalf("in pieces of %v: %d exchanges, close %d, sent\n%s\nwant\n%s", lengths, len(some), how, got, want)
		}
	}
	for n := 1; n < len(mixed); n++ {
		check(n, len(mixed))
	}
	check(1)
	chance := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		check(1+chance.IntN(9), 1+chance.IntN(90), 1+chance.IntN(30))
	}
}

// Whatever comes, nothing panics, splitting changes nothing, and there is one
// answer per exchange.
func FuzzBytes(f *testing.F) {
	f.Add([]byte(mixed))
	f.Add([]byte("GARBAGE\r\n\r\n"))
	f.Add([]byte("POST /model HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) == 0 {
			return
		}
		whole, exchanges, _ := converse(stream, len(stream))
		if answers := strings.Count(whole, "\r\nDate: "); answers < len(exchanges) {
			t.Errorf("%d answers to %d requests", answers, len(exchanges))
		}
		single, same, _ := converse(stream, 1)
		// Who sends the body bit by bit is told to go on, who sends it at once is not.
		single = strings.ReplaceAll(single, "HTTP/1.1 100 Continue\r\n\r\n", "")
		whole = strings.ReplaceAll(whole, "HTTP/1.1 100 Continue\r\n\r\n", "")
		if single != whole || len(same) != len(exchanges) {
			t.Errorf("whole:\n%q\nbyte by byte:\n%q", whole, single)
		}
	})
}

func TestAnswerWithoutAskIsABug(t *testing.T) {
	for name, tell := range map[string]func(s *Session){
		"answer": func(s *Session) { s.HandleAnswer(epoch, 200) },
		"reply":  func(s *Session) { s.HandleReply(epoch, 200, nil, nil) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); text != "bug: answer for a session that is idle" {
					t.Errorf("%s without ask: %q", name, text)
				}
			}()
			tell(New(epoch, new(LoopState)))
		}()
	}
}

// Memory that one large answer needed is let go; that of ordinary ones stays.
func TestResetKeepsABoundedBuffer(t *testing.T) {
	sh := LoopState{Out: make([]byte, 10, outBytesKept), Await: AwaitOwn, Raw: []byte("x"), Close: cycle.CloseLinger,
		Answered: make([]Exchange, 1)}
	sh.Reset()
	if len(sh.Out) != 0 || cap(sh.Out) != outBytesKept || sh.Await != AwaitNone || sh.Raw != nil ||
		sh.Close != cycle.CloseNone || len(sh.Answered) != 0 {
		t.Errorf("after Reset: %+v", sh)
	}
	sh.Out = make([]byte, 10, outBytesKept+1)
	sh.Reset()
	if cap(sh.Out) != 0 {
		t.Errorf("Reset keeps %d bytes", cap(sh.Out))
	}
}

// request is what load generators send.
const request = "GET /api/test HTTP/1.1\r\nHost: 127.0.0.1:8081\r\nUser-Agent: wrk\r\nAccept: */*\r\n\r\n"

// exchange returns a step that has one turn of the loop: bytes with n requests
// come, and all are answered on the spot.
func exchange(text string, n int) func() {
	var sh LoopState
	s := New(epoch, &sh)
	stream := []byte(strings.Repeat(text, n))
	return func() {
		read := s.HandleData(epoch, stream)
		for sh.Await == AwaitService {
			s.HandleAnswer(epoch, 200)
			read += s.HandleData(epoch, stream[read:])
		}
		if read != len(stream) || len(sh.Answered) != n || sh.Close != cycle.CloseNone {
			panic("bug: not every request was answered")
		}
		sh.Reset()
	}
}

func TestExchangeAllocatesNothing(t *testing.T) {
	for name, text := range map[string]string{
		"get":     request,
		"head":    strings.Replace(request, "GET", "HEAD", 1),
		"nowhere": strings.Replace(request, "/api/test", "/", 1),
		"1.0":     "GET /api/test HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"body":    "POST /api/test HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
	} {
		step := exchange(text, 3)
		step()
		if n := testing.AllocsPerRun(100, step); n != 0 {
			t.Errorf("%s: %v allocations per turn", name, n)
		}
	}
}

func BenchmarkExchange(b *testing.B) {
	step := exchange(request, 1)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}

// BenchmarkPipelined is per request of 16 that come together.
func BenchmarkPipelined(b *testing.B) {
	const n = 16
	step := exchange(request, n)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%n == 0 {
			step()
		}
	}
}

// BenchmarkUpload is per piece of 64 KiB of a body that is thrown away.
func BenchmarkUpload(b *testing.B) {
	var sh LoopState
	s := New(epoch, &sh)
	piece := make([]byte, 64<<10)
	s.HandleData(epoch,
		http1.AppendHeadEnd([]byte("PUT /api/test HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000000\r\n")))
	b.SetBytes(int64(len(piece)))
	b.ReportAllocs()
	for b.Loop() {
		s.HandleData(epoch, piece)
	}
}
