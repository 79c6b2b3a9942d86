package wire

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/http1"
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
	forwarded, rejected := c.count(s, `ratelimiter_requests_total{decision="forwarded"}`), c.count(s, `ratelimiter_requests_total{decision="rejected"}`)
	retries := c.count(s, "ratelimiter_upstream_retries_total")
	faults := 0
	for name, n := range s {
		if strings.HasPrefix(name, "ratelimiter_upstream_errors_total") {
			faults += int(n)
		}
	}
	served, refused, failed := c.told[200], c.told[429], c.told[502]
	t.Logf("%d served, %d refused, %d failed, %d repeated, %d changes of the limit", served, refused, failed, retries, c.changes)
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
		if book.got != book.want {
			t.Errorf("%s: %d, want %d", book.what, book.got, book.want)
		}
	}
	if served == 0 || refused == 0 || failed == 0 || retries == 0 {
		t.Error("too little chaos")
	}
}

// TestChaosWithClientsThatLeave is the same with clients that reset their
// connections in the middle of anything: nobody else notices, and every
// decision ends in an answer or is counted as abandoned.
func TestChaosWithClientsThatLeave(t *testing.T) {
	c := newChaos(t, true)
	c.run()
	s := c.samples()
	decided := c.count(s, `ratelimiter_requests_total{decision="forwarded"}`) + c.count(s, `ratelimiter_requests_total{decision="rejected"}`)
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
	seen, sent := int(c.seen.Load()), c.count(s, `ratelimiter_requests_total{decision="forwarded"}`)+c.count(s, "ratelimiter_upstream_retries_total")
	if seen > sent || seen < sent-abandoned {
		t.Errorf("the target saw %d, forwarded were %d, of which %d abandoned", seen, sent, abandoned)
	}
	if abandoned == 0 || c.lost == 0 {
		t.Error("too little chaos")
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

	mu    sync.Mutex
	told  map[int]int     // answers that clients have read, by status
	lost  int             // answers that clients have not waited for
	resat map[string]bool // requests of the mood "once" that were reset
}

func newChaos(t *testing.T, leave bool) *chaos {
	t.Logf("-chaos-seed %d", *chaosSeed)
	before := goroutines()
	t.Cleanup(func() { // the last one: everything has ended
		until(t, "all goroutines have ended", func() bool { return goroutines() <= before })
	})
	c := &chaos{leave: leave, moods: slices.Sorted(maps.Keys(chaosMoods)), told: make(map[int]int), resat: make(map[string]bool)}
	c.rig = start(t, newTarget(t, c.script).url())
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
		conn.ask(post(fmt.Sprintf(`{"algorithm":"fixed","limit":%d,"window":%d}`, limit, int(century.Seconds()))), 200)
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
	before := c.resat[target]
	c.resat[target] = true
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
		reset(conn.Conn)
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

// A chaosClient is one client of a chaos.
//
// Owned by its goroutine.
type chaosClient struct {
	*chaos
	number int
	asked  int // questions made up
	done   int // answered, or left behind by choice
	r      *rand.Rand
	conn   *caller
}

// A question is one request and what its answer may be.
type question struct {
	method, target, body string
	text                 string // on the wire
	statuses             []int
}

// talk asks in batches, over a connection for some while, then over another.
func (cl *chaosClient) talk() error {
	for cl.done < chaosExchanges && !cl.t.Failed() {
		if cl.conn == nil {
			c, err := net.Dial("tcp", cl.Addr().String())
			if err != nil {
				return err
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			cl.conn = newCaller(cl.t, c)
		}
		n, ends, err := cl.exchange(cl.batch())
		if err != nil {
			return err
		}
		cl.done += n
		cl.exchanges.Add(int64(n))
		if ends || cl.r.IntN(10) == 0 {
			cl.hangUp(ends)
		}
	}
	if cl.conn != nil {
		cl.hangUp(false)
	}
	return nil
}

func (cl *chaosClient) hangUp(hard bool) {
	if hard && cl.r.IntN(2) == 0 {
		cl.conn.reset()
	} else {
		_ = cl.conn.Close()
	}
	cl.conn = nil
}

// batch makes up to 4 questions that are sent one right behind the other.
func (cl *chaosClient) batch() (batch []question) {
	for range min(1+cl.r.IntN(4), chaosExchanges-cl.done) {
		batch = append(batch, cl.question())
		cl.asked++
	}
	return batch
}

func (cl *chaosClient) question() question {
	mood := "ok"
	if cl.r.IntN(3) == 0 {
		mood = cl.moods[cl.r.IntN(len(cl.moods))]
	}
	q := question{method: "GET", target: fmt.Sprintf("/%s/%d/%d", mood, cl.number, cl.asked), statuses: append([]int{429}, chaosMoods[mood]...)}
	if cl.r.IntN(3) > 0 {
		q.text = fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", q.target)
		return q
	}
	q.method = []string{"POST", "PUT", "PATCH"}[cl.r.IntN(3)]
	q.body = strings.Repeat(string(rune('a'+cl.r.IntN(26))), cl.r.IntN(2000))
	if cl.r.IntN(2) == 0 && q.body != "" {
		q.text = chunked(q.method+" "+q.target, q.body)
		return q
	}
	q.text = fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", q.method, q.target, len(q.body), q.body)
	return q
}

// exchange sends a batch in pieces and reads the answers. It returns how many
// questions are done with, and whether the connection ends: because the client
// chose to leave, or because the proxy refused an upload that was still on its
// way and closed behind it.
func (cl *chaosClient) exchange(batch []question) (n int, ends bool, err error) {
	var text strings.Builder
	for _, q := range batch {
		text.WriteString(q.text)
	}
	all, stay := text.String(), len(batch)
	if cl.leave && cl.r.IntN(8) == 0 {
		stay = cl.r.IntN(len(batch))
		if stay == 0 {
			all = all[:cl.r.IntN(len(all))]
		}
	}
	for len(all) > 0 {
		piece := min(len(all), 1+cl.r.IntN(1500))
		if _, err := cl.conn.Write([]byte(all[:piece])); err != nil {
			return 0, false, fmt.Errorf("send: %w", err)
		}
		all = all[piece:]
	}
	for n < stay && !ends {
		q := &batch[n]
		if ends, err = cl.read(q); err != nil {
			return n, ends, fmt.Errorf("%s %s: %w", q.method, q.target, err)
		}
		n++
	}
	if stay == len(batch) {
		return n, ends, nil
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.lost += len(batch) - n
	return len(batch), true, nil
}

// read reads the answer to q. ends says that the connection ends with it.
func (cl *chaosClient) read(q *question) (ends bool, err error) {
	res, body, err := final(cl.conn.in, q.method)
	if err != nil {
		return false, err
	}
	if !slices.Contains(q.statuses, res.StatusCode) {
		return false, fmt.Errorf("answered %d %q, want one of %v", res.StatusCode, body, q.statuses)
	}
	if res.StatusCode == 200 && body != echoOf(q.method, q.target, q.body) {
		return false, fmt.Errorf("got the answer of another: %q", body)
	}
	if res.Close && (res.StatusCode != 429 || q.body == "") {
		return false, fmt.Errorf("the connection ends with %d %q", res.StatusCode, body)
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.told[res.StatusCode]++
	return res.Close, nil
}
