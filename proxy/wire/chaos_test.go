package wire

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/test/testkit"
)

var chaosSeed = flag.Uint64("chaos-seed", 1, "what the chaos tests draw from")

// The chaos tests let many clients talk to a target that misbehaves, through a
// proxy whose limit is changed meanwhile. Each request has an id of its own in
// its path, and the path says how the target takes it; so a client knows what
// each of its answers may be, and an answer to anything else is found out.
const (
	chaosClients   = 24
	chaosExchanges = 425 // of each client, in each test
)

// chaosMoods are how the target may take a request, and how it then ends.
var chaosMoods = map[string][]int{
	"ok":     {200},
	"split":  {200}, // the answer comes in pieces
	"chunks": {200},
	"hints":  {200},      // behind an interim answer
	"last":   {200},      // and the connection closes
	"once":   {200, 502}, // is reset the first time; a repetition is served
	"reset":  {502},
	"eof":    {502},
	"cut":    {502}, // in the middle of the answer
	"junk":   {502},
}

// TestChaos: every request gets exactly one answer, its own, and the books of
// clients, proxy and target agree to the last request.
func TestChaos(t *testing.T) {
	c := newChaos(t, false)
	c.run()
	s := c.samples()
	forwarded, rejected := c.count(s, `ratelimiter_requests_total{decision="forwarded"}`),
		c.count(s, `ratelimiter_requests_total{decision="rejected"}`)
	retries := c.count(s, "ratelimiter_upstream_retries_total")
	faults := 0
	for name, n := range s {
		if strings.HasPrefix(name, "ratelimiter_upstream_errors_total") ||
			strings.HasPrefix(name, "ratelimiter_upstream_shed_total") {
			faults += int(n)
		}
	}
	served, refused, failed := c.told[200], c.told[429], c.told[502]
	t.Logf("%d served, %d refused, %d failed, %d repeated, %d changes of the limit", served, refused, failed, retries,
		c.changes)
	for _, book := range []struct {
		what      string
		got, want int
	}{
		{"exchanges", served + refused + failed, chaosClients * chaosExchanges},
		{"forwarded", forwarded, served + failed},
		{"rejected", rejected, refused},
		{"faults", faults, failed},
		{"seen by the target", int(c.seen.Load()), forwarded + retries},
		{"served by the target", int(c.served.Load()), forwarded - faults},
		{"abandoned", c.count(s, "ratelimiter_requests_abandoned_total"), 0},
	} {
		equal(t, book.what, book.got, book.want)
	}
	if served == 0 || refused == 0 || failed == 0 || retries == 0 {
		t.Error("the run did not cover every outcome")
	}
}

// TestChaosWithClientsThatLeave is the same with clients that reset their connections at any
// time: other clients are not affected, and every decision ends in an answer or is counted as
// abandoned.
func TestChaosWithClientsThatLeave(t *testing.T) {
	c := newChaos(t, true)
	c.run()
	s := c.samples()
	decided := c.count(s, `ratelimiter_requests_total{decision="forwarded"}`) +
		c.count(s, `ratelimiter_requests_total{decision="rejected"}`)
	abandoned := c.count(s, "ratelimiter_requests_abandoned_total")
	answered := -c.changes // answers of the own endpoint
	for name, n := range s {
		if code, ok := strings.CutPrefix(name, `ratelimiter_responses_total{code="`); ok {
			answered += int(n)
			if status, _ := strconv.Atoi(strings.TrimSuffix(code, `"}`)); !slices.Contains([]int{200, 429, 502}, status) {
				t.Errorf("%v answers with %d", n, status)
			}
		}
	}
	t.Logf("%d decided, %d answered, %d abandoned, told %v", decided, answered, abandoned, c.told)
	if decided != answered+abandoned {
		t.Errorf("%d decided, but %d answered and %d abandoned", decided, answered, abandoned)
	}
	if told := c.told[200] + c.told[429] + c.told[502]; told > answered || answered > told+c.lost {
		t.Errorf("%d answered, %d told, %d may be lost", answered, told, c.lost)
	}
	seen, sent := int(c.seen.Load()), c.count(s, `ratelimiter_requests_total{decision="forwarded"}`)+
		c.count(s, "ratelimiter_upstream_retries_total")
	if seen > sent || seen < sent-abandoned {
		t.Errorf("the target saw %d, forwarded were %d, of which %d abandoned", seen, sent, abandoned)
	}
	if abandoned == 0 || c.lost == 0 {
		t.Error("the run did not cover every outcome")
	}
}

// A chaos is one run.
//
// Safe for concurrent use: counters are atomic, a mutex guards the maps.
type chaos struct {
	*rig
	leave     bool // clients may leave at any time
	moods     []string
	exchanges atomic.Int64 // done so far
	seen      atomic.Int64 // by the target
	served    atomic.Int64 // completely answered by the target
	changes   int          // of the limit

	mu       sync.Mutex
	told     map[int]int     // answers that clients have read, by status
	lost     int             // answers that clients have not waited for
	wasReset map[string]bool // requests of the mood "once" that were reset
}

func newChaos(t *testing.T, leave bool) *chaos {
	t.Logf("-chaos-seed %d", *chaosSeed)
	addr := testkit.FreeAddr(t) // may open a descriptor that stays open
	routines, files := goroutines(), descriptors(t)
	t.Cleanup(func() { // the last one: everything has ended
		testkit.Eventually(t, "all goroutines have ended", func() bool { return goroutines() <= routines })
		testkit.Eventually(t, "all descriptors are closed", func() bool { return descriptors(t) <= files })
	})
	c := &chaos{leave: leave, moods: slices.Sorted(maps.Keys(chaosMoods)), told: make(map[int]int),
		wasReset: make(map[string]bool)}
	c.rig = start(t, newTargetAt(t, addr, c.script).url())
	return c
}

// goroutines is how many there are with code of ours.
func goroutines() (n int) {
	stacks := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "weir/") {
			n++
		}
	}
	return n
}

// descriptors is how many this process has open.
func descriptors(t *testing.T) int {
	entries := testkit.Must(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

func (c *chaos) count(s map[string]float64, name string) int { return int(s[name]) }

// run lets the clients talk until all are done and the proxy is at rest.
func (c *chaos) run() {
	var clients sync.WaitGroup
	for i := range chaosClients {
		clients.Go(func() {
			cl := &chaosClient{chaos: c, number: i, r: rand.New(rand.NewPCG(*chaosSeed, uint64(i)))}
			if err := cl.talk(); err != nil {
				c.t.Errorf("client %d: %v", i, err)
			}
		})
	}
	c.changeLimits()
	clients.Wait()
	checkBaseLine(c.rig)
	if n := c.drain(context.Background()); n != 0 {
		c.t.Errorf("%d connections were cut", n)
	}
}

// changeLimits refuses everybody for a part of the time. What was consumed
// stays so, as only the amount changes.
func (c *chaos) changeLimits() {
	conn := c.dial()
	const all = chaosClients * chaosExchanges
	for _, percent := range []int64{10, 15, 40, 45, 80, 85} {
		c.until("the clients have come further", func() bool { return c.t.Failed() || c.exchanges.Load() >= all*percent/100 })
		limit := 1_000_000_000
		if c.changes%2 == 0 {
			limit = 1
		}
		conn.Ask(post(fmt.Sprintf(`{"algorithm":"fixed","limit":%d,"window":%d}`, limit, int(century.Seconds()))), 200)
		c.changes++
	}
	conn.Close()
}

// script is the target's.
func (c *chaos) script(conn *targetConn) {
	for s := conn.next(); s != nil; s = conn.next() {
		c.seen.Add(1)
		mood := strings.Split(s.target(), "/")[1]
		if mood == "once" && !c.first(s.target()) {
			mood = "ok"
		}
		if !c.treat(conn, s, mood) {
			return
		}
	}
}

// first reports whether the target is asked so for the first time.
func (c *chaos) first(target string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.wasReset[target]
	c.wasReset[target] = true
	return !before
}

// treat answers s as the mood says, and reports whether the connection goes on.
func (c *chaos) treat(conn *targetConn, s *seen, mood string) bool {
	body := echoOf(s.method(), s.target(), s.body)
	if s.head.Method == http1.HEAD {
		body = ""
	}
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	switch mood {
	case "once", "reset":
		testkit.Reset(conn.Conn)
		return false
	case "eof":
		return false
	case "cut":
		conn.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body)+5, body))
		return false
	case "junk":
		conn.say("HTTP/1.1 2000 NO\r\n\r\n")
		return false
	case "split":
		conn.say(answer[:len(answer)/2])
		runtime.Gosched()
		answer = answer[len(answer)/2:]
	case "chunks":
		answer = fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	case "hints":
		answer = "HTTP/1.1 103 Early Hints\r\n\r\n" + answer
	case "last":
		answer = fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	conn.say(answer)
	c.served.Add(1)
	return mood != "last"
}
