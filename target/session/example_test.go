package session_test

import (
	"fmt"
	"time"

	"weir/target/session"
)

// Two requests arrive together: the session asks once for each, and both
// answers leave in one write.
func Example() {
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	var shared session.LoopState
	s := session.New(now, &shared)

	b := []byte("GET /api/test HTTP/1.1\r\nHost: x\r\n\r\nHEAD /api/test HTTP/1.1\r\nHost: x\r\n\r\n")
	n := s.HandleData(now, b)
	for shared.Await == session.AwaitService {
		s.HandleAnswer(now, 200)
		n += s.HandleData(now, b[n:])
	}
	fmt.Println(n == len(b), len(shared.Out), "bytes to send")
	for _, e := range shared.Answered {
		fmt.Println(e.Method, e.Endpoint, e.Status)
	}
	// Output:
	// true 204 bytes to send
	// GET /api/test 200
	// HEAD /api/test 200
}
