package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// startQueue runs a proxy with one rule that is a queue, before a target that says
// who arrives.
func startQueue(t *testing.T, limit string, env ...string) (*rig, *barrier) {
	t.Helper()
	g := newBarrier()
	rules := ruleFile(t, `rules: [{id: q, match: {path: "/q/**"}, `+limit+`}]`)
	return start(t, newTarget(t, g.script).url(), append(env, "RULES_FILE", rules)...), g
}

// places waits until the queue has given so many places and refused so many
// requests.
func (r *rig) places(given, refused int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d places given, %d requests refused", given, refused), func() bool {
		s := r.samples()
		return s[ruleMetric("q", "forwarded")] == float64(given) && s[ruleMetric("q", "rejected")] == float64(refused)
	})
}

// Requests leave in the order in which they came, and none before its slot: the
// n-th not before n intervals are over since the first. Over one loop and one
// connection to the target the order is that in which they arrive there; over
// more of them only the slots hold whatever the machine does meanwhile.
func TestQueueIsInOrder(t *testing.T) {
	for _, test := range []struct{ loops, connections string }{{"1", "1"}, {"2", "1024"}} {
		t.Run(test.loops, func(t *testing.T) {
			const rate, requests = 25, 10
			r, g := startQueue(t, fmt.Sprintf("limit: {algorithm: leaky, capacity: 100, fillRate: %d}", rate),
				"EVENT_LOOPS", test.loops, "TARGET_MAX_CONNECTIONS", test.connections)
			began := time.Now()
			var conns []*testkit.Conn
			for i := range requests {
				conn := r.dial()
				conn.Send(request(fmt.Sprintf("/q/%d", i)))
				r.places(i+1, 0)
				conns = append(conns, conn)
			}
			for i := range requests {
				var number int
				if _, err := fmt.Sscanf(g.next(t), "/q/%d", &number); err != nil {
					t.Fatal(err)
				}
				if test.loops == "1" && number != i {
					t.Errorf("request %d is the %dth at the target", number, i)
				}
				if slot := time.Duration(number) * time.Second / rate; time.Since(began) < slot {
					t.Errorf("request %d is at the target before its slot", number)
				}
			}
			for i, conn := range conns {
				if _, body := conn.Status(200); body != echoOf("GET", fmt.Sprintf("/q/%d", i), "") {
					t.Errorf("request %d got %q", i, body)
				}
			}
		})
	}
}

// A waiting request keeps its body and what is pipelined after it, and delays no other
// connection.
func TestQueuedRequestsAreWhole(t *testing.T) {
	r, g := startQueue(t, "limit: {algorithm: leaky, capacity: 10, fillRate: 10}")
	conn := r.dial()
	conn.Send(request("/q/1") + "POST /q/2 HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
	conn.Status(200)
	r.places(2, 0)
	conn.Send("def" + request("/free") +
		"POST /q/3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n")
	for _, want := range []string{echoOf("POST", "/q/2", "abcdef"), echoOf("GET", "/free", ""),
		echoOf("POST", "/q/3", "xyz")} {
		if _, body := conn.Status(200); body != want {
			t.Errorf("answered %q, want %q", body, want)
		}
	}
	for _, want := range []string{"/q/1", "/q/2", "/free", "/q/3"} {
		if got := g.next(t); got != want {
			t.Errorf("%s is at the target, want %s", got, want)
		}
	}
}

// rarely is a queue in which only the first slot comes while the test runs.
const rarely = "limit: {algorithm: leaky, capacity: 2, fillRate: 0.001}"

// A full queue refuses; a client that is gone frees its place.
func TestQueueIsFull(t *testing.T) {
	r, g := startQueue(t, rarely)
	first, waits, leaves := r.dial(), r.dial(), r.dial()
	first.Ask(request("/q/first"), 200)
	waits.Send(request("/q/waits"))
	r.places(2, 0)
	leaves.Send(request("/q/leaves"))
	r.places(3, 0)
	first.Send(request("/q/full"))
	res, body := first.Status(429)
	fieldsAre(t, res.Header, "X-RateLimit-Limit", "2", "X-RateLimit-Remaining", "0", "RateLimit-Policy", `"q";q=2;w=2000`)
	var told struct{ RetryAfter float64 }
	if err := json.Unmarshal([]byte(body), &told); err != nil || told.RetryAfter <= 0 || told.RetryAfter > 1000 {
		t.Errorf("refused with %s, want to be told of the next slot", body)
	}
	for i := range 2 {
		leaves.Reset()
		r.until("it is known that the client is gone",
			func() bool { return r.samples()["ratelimiter_requests_abandoned_total"] == float64(i+1) })
		leaves = r.dial()
		leaves.Send(request("/q/again"))
		r.places(4+i, 1+i)
		first.Ask(request("/q/full"), 429)
	}
	if got := g.next(t); got != "/q/first" || len(g.asked) > 0 {
		t.Errorf("%s and %d more are at the target, want the first only", got, len(g.asked))
	}
}

// maxDelay bounds how long a request may wait: here a slot and a half.
func TestQueueOfThePatient(t *testing.T) {
	r, _ := startQueue(t, "limit: {algorithm: leaky, capacity: 10, fillRate: 0.001}, maxDelay: 1500")
	conn := r.dial()
	conn.Ask(request("/q"), 200)
	r.dial().Send(request("/q"))
	r.places(2, 0)
	var told struct{ RetryAfter float64 }
	if body := conn.Ask(request("/q"), 429); json.Unmarshal([]byte(body), &told) != nil || told.RetryAfter <= 0 ||
		told.RetryAfter > 500 {
		t.Errorf("refused with %s, want to come when the queue is a slot and a half long", body)
	}
}

// During a drain, waiting requests still get their slots.
func TestDrainOfQueue(t *testing.T) {
	t.Parallel() // a lingering close takes a second
	r, _ := startQueue(t, "limit: {algorithm: leaky, capacity: 10, fillRate: 4}")
	var conns []*testkit.Conn
	for i := range 4 {
		conn := r.dial()
		conn.Send(request("/q"))
		r.places(i+1, 0)
		conns = append(conns, conn)
	}
	conns[0].Status(200)
	if cut := r.drain(context.Background()); cut != 0 {
		t.Errorf("%d connections were cut", cut)
	}
	for _, conn := range conns[1:] {
		conn.Status(200)
		conn.Closed()
	}
}

// Requests that wait longer than DRAIN_TIMEOUT are cut.
func TestDrainTimeoutOfQueue(t *testing.T) {
	t.Parallel() // a lingering close takes a second
	r, _ := startQueue(t, rarely, "DRAIN_TIMEOUT", "50ms", "DRAIN_GRACE", "10ms")
	first := r.dial()
	first.Ask(rawRequest("GET /q Connection=close"), 200)
	first.Closed()
	conn := r.dial()
	conn.Send(request("/q"))
	r.places(2, 0)
	r.until("only who waits is connected", func() bool { return r.group.Stats().Open.Load() == 1 })
	if cut := r.drain(context.Background()); cut != 1 {
		t.Errorf("%d connections were cut, want 1", cut)
	}
	conn.Closed()
}

// In several queues a request waits for the last of its slots, and a limit that
// refuses it leaves the queues as they were.
func TestQueuesTogether(t *testing.T) {
	g := newBarrier()
	r := start(t, newTarget(t, g.script).url(), "RULES_FILE", ruleFile(t, `rules:
- {id: q, limit: {algorithm: leaky, capacity: 1, fillRate: 0.001}}
- {id: fast, limit: {algorithm: leaky, capacity: 5, fillRate: 1000}}
- {id: count, key: ["header:X-A"], limit: {algorithm: fixed, limit: 2, window: C}}`))
	conn := r.dial()
	play(conn, `GET /first X-A=1 -> 200 count 1`)
	waits := r.dial()
	waits.Send(rawRequest("GET /waits X-A=1"))
	r.places(2, 0)
	play(conn, `
		GET / X-A=1 -> 429 count 0
		GET / X-A=2 -> 429 q 0`)
	waits.Reset()
	r.until("it is known that the client is gone",
		func() bool { return r.samples()["ratelimiter_requests_abandoned_total"] == 1 })
	play(conn, `GET / X-A=1 -> 429 count 0`) // what was counted stays counted
	last := r.dial()
	last.Send(rawRequest("GET /last X-A=2"))
	r.places(3, 2) // the refusal by count booked no place
	if got := g.next(t); got != "/first" || len(g.asked) > 0 {
		t.Errorf("%s and %d more are at the target, want the first only", got, len(g.asked))
	}
}
