package wire

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// startQueue runs a proxy with one rule that is a queue, before a target that says
// who arrives.
func startQueue(t *testing.T, limit string, env ...string) *rig {
	t.Helper()
	rules := ruleFile(t, `rules: [{id: q, match: {path: "/q/**"}, `+limit+`}]`)
	return serve(t, holds, append(env, "RULES_FILE", rules)...)
}

// Requests leave in the order in which they came, and none before its slot: the
// n-th not before n intervals are over since the first. Over one loop and one
// connection to the target the order is that in which they arrive there; over
// more of them only the slots hold whatever the machine does meanwhile.
func TestQueueIsInOrder(t *testing.T) {
	t.Parallel() // waits for slots
	for _, test := range []struct{ loops, connections string }{{"1", "1"}, {"2", "1024"}} {
		t.Run(test.loops, func(t *testing.T) {
			t.Parallel()
			const rate, requests = 25, 10
			r := startQueue(t, fmt.Sprintf("limit: {algorithm: leaky, capacity: 100, fillRate: %d}", rate),
				"EVENT_LOOPS", test.loops, "TARGET_MAX_CONNECTIONS", test.connections)
			began := time.Now()
			for i := range requests {
				r.playf(`c%[1]d GET /q/%[1]d; until q.forwarded=%[2]d`, i, i+1)
			}
			for i := range requests {
				var number int
				if _, err := fmt.Sscanf(testkit.Receive(t, r.targets["target"].asked, "a request"), "/q/%d", &number); err != nil {
					t.Fatal(err)
				}
				if test.loops == "1" && number != i {
					t.Errorf("request %d is the %dth at the target", number, i)
				}
				if slot := time.Duration(number) * time.Second / rate; time.Since(began) < slot {
					t.Errorf("request %d is at the target before its slot", number)
				}
			}
			r.play(`c* -> 200 echo; metrics q.rejected=0`)
		})
	}
}

// A waiting request keeps its body and what is pipelined after it, and delays no other
// connection.
func TestQueuedRequestsAreWhole(t *testing.T) {
	startQueue(t, "limit: {algorithm: leaky, capacity: 10, fillRate: 10}").playf(`
		a GET /q/1 + "POST /q/2 HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc"; a -> 200; until q.forwarded=2
		a %q
		a -> 200 =%q + 200 =%q + 200 =%q
		target gets /q/1 /q/2 /free /q/3`, "def"+request("/free")+chunked("POST /q/3", "xyz"),
		echoOf("POST", "/q/2", "abcdef"), echoOf("GET", "/free", ""), echoOf("POST", "/q/3", "xyz"))
}

// rarely is a queue in which only the first slot comes while the test runs.
const rarely = "limit: {algorithm: leaky, capacity: 2, fillRate: 0.001}"

// A full queue refuses; a client that is gone frees its place.
func TestQueueIsFull(t *testing.T) {
	r := startQueue(t, rarely)
	r.play(`
		first GET /q/first -> 200
		waits GET /q/waits; until q.forwarded=2; leaves GET /q/leaves; until q.forwarded=3
		first GET /q/full -> 429 q 0 X-RateLimit-Limit=2 X-RateLimit-Remaining=0 RateLimit-Policy="\"q\";q=2;w=2000"
		leaves resets; until requests_abandoned_total=1; leaves GET /q/again; until q.forwarded=4 q.rejected=1
		first GET /q/full -> 429`)
	slotIs(t, r.last("first"), 1000)
	r.play(`
		leaves resets; until requests_abandoned_total=2; leaves GET /q/again; until q.forwarded=5 q.rejected=2
		first GET /q/full -> 429; target gets /q/first; target gets nothing`)
}

// slotIs looks at the body of a refusal: the next slot is at most so many seconds away.
func slotIs(t *testing.T, c *testClient, most float64) {
	t.Helper()
	var told struct{ RetryAfter float64 }
	if c.decode(&told); told.RetryAfter <= 0 || told.RetryAfter > most {
		t.Errorf("refused with %s, want to be told of the next slot, within %v s", c.body, most)
	}
}

// maxDelay bounds how long a request may wait: here a slot and a half.
func TestQueueOfThePatient(t *testing.T) {
	r := startQueue(t, "limit: {algorithm: leaky, capacity: 10, fillRate: 0.001}, maxDelay: 1500")
	r.play(`a GET /q -> 200; b GET /q; until q.forwarded=2; c GET /q -> 429`)
	slotIs(t, r.last("c"), 500)
}

// During a drain, waiting requests still get their slots.
func TestDrainOfQueue(t *testing.T) {
	t.Parallel() // a lingering close takes a second
	startQueue(t, "limit: {algorithm: leaky, capacity: 10, fillRate: 4}").play(`
		a GET /q; until q.forwarded=1; b GET /q; until q.forwarded=2; c GET /q; until q.forwarded=3
		d GET /q; until q.forwarded=4; a -> 200; drain 0; b,c,d -> 200 + closed`)
}

// Requests that wait longer than DRAIN_TIMEOUT are cut.
func TestDrainTimeoutOfQueue(t *testing.T) {
	t.Parallel() // a lingering close takes a second
	r := startQueue(t, rarely, "DRAIN_TIMEOUT", "50ms", "DRAIN_GRACE", "10ms")
	r.play(`a GET /q Connection=close -> 200 + closed; b GET /q; until q.forwarded=2`)
	r.until("only who waits is connected", func() bool { return r.group.Stats().Open.Load() == 1 })
	r.play(`drain 1; b -> closed`)
}

// In several queues a request waits for the last of its slots, and a limit that
// refuses it leaves the queues as they were.
func TestQueuesTogether(t *testing.T) {
	serve(t, holds, "RULES_FILE", ruleFile(t, `rules:
- {id: q, limit: {algorithm: leaky, capacity: 1, fillRate: 0.001}}
- {id: fast, limit: {algorithm: leaky, capacity: 5, fillRate: 1000}}
- {id: count, key: ["header:X-A"], limit: {algorithm: fixed, limit: 2, window: C}}`)).play(`
		GET /first X-A=1 -> 200 count 1
		waits GET /waits X-A=1; until q.forwarded=2
		GET / X-A=1 -> 429 count 0
		GET / X-A=2 -> 429 q 0
		waits resets; until requests_abandoned_total=1
		GET / X-A=1 -> 429 count 0                          # what was counted stays counted
		last GET /last X-A=2; until q.forwarded=3 q.rejected=2 # the refusal by count booked no place
		target gets /first; target gets nothing`)
}
