package wire

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"weir/internal/test/testkit"
)

// A chaosClient is one client of a chaos.
//
// Owned by its goroutine.
type chaosClient struct {
	*chaos
	number int
	asked  int // questions made up
	done   int // answered, or left behind by choice
	r      *rand.Rand
	conn   *testkit.Conn
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
			_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
			cl.conn = testkit.NewConn(cl.t, c)
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
		cl.conn.Reset()
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
	q := question{method: "GET", target: fmt.Sprintf("/%s/%d/%d", mood, cl.number, cl.asked),
		statuses: append([]int{429}, chaosMoods[mood]...)}
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
	q.text = fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", q.method, q.target, len(q.body),
		q.body)
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
	res, body, err := final(cl.conn.In, q.method)
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
