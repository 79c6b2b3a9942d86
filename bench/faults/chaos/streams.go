package chaos

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
)

// A streams is a connection of HTTP/2, with the requests of one batch in progress.
//
// Owned by its client.
type streams struct {
	http2  *http2.Conn
	head   http2.Head
	in     []byte
	asked  []*streamed
	goAway bool // the proxy accepts no more streams
}

// A streamed is a request on a stream and its answer so far.
type streamed struct {
	*request
	id     uint32
	unsent []byte // of the request's body
	status int
	body   []byte
}

// exchangeStreams is exchange by HTTP/2. Answers come in any order. A client may reset some of its streams.
func (c *client) exchangeStreams(batch []request) (open bool, err error) {
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	s, troubled := c.streams, c.troubles()
	var out []byte
	for i := range batch {
		if out, err = s.ask(out, &batch[i]); err != nil {
			return false, err
		}
	}
	leaves := c.mayLeave && c.r.IntN(10) == 0
	if leaves && c.r.IntN(2) == 0 {
		out = c.resetStreams(out)
	}
	if leaves && c.r.IntN(2) == 0 { // hangs up in the middle of what it sends
		_, _ = c.conn.Write(out[:c.r.IntN(len(out))])
		c.tally.lost += len(s.asked)
		return false, nil
	}
	for buf := make([]byte, 16<<10); ; {
		if err = s.write(c, out); err != nil || len(s.asked) == 0 {
			break
		}
		n := 0
		if n, err = c.conn.Read(buf); err != nil {
			break
		}
		if err = s.read(c, buf[:n], troubled); err != nil {
			break
		}
		out = s.send(out[:0])
	}
	c.tally.lost += len(s.asked)
	return err == nil && !s.goAway, err
}

// ask sends a request.
func (s *streams) ask(out []byte, q *request) ([]byte, error) {
	r := http2.Request{Method: []byte(q.method), Scheme: "http", Authority: []byte("chaos"), Path: []byte(q.target)}
	if !q.chunked && q.method != "GET" && q.method != "HEAD" {
		r.Fields = http1.AppendFieldInt(nil, "Content-Length", int64(len(q.body)))
	}
	out, id, err := s.http2.AppendRequest(out, &r, len(q.body) == 0)
	if err != nil {
		return out, fmt.Errorf("%s %s: %w", q.method, q.target, err)
	}
	a := &streamed{request: q, id: id, unsent: q.body}
	s.asked = append(s.asked, a)
	return s.sendBody(out, a), nil
}

// sendBody sends as much of a body as there is room for.
func (s *streams) sendBody(out []byte, a *streamed) []byte {
	if len(a.unsent) > 0 {
		var n int
		out, n = s.http2.AppendData(out, a.id, a.unsent, true)
		a.unsent = a.unsent[n:]
	}
	return out
}

// send sends what there is room for now.
func (s *streams) send(out []byte) []byte {
	for _, a := range s.asked {
		out = s.sendBody(out, a)
	}
	return s.http2.AppendControl(out)
}

// write writes frames, split as those of HTTP/1.1.
func (s *streams) write(c *client, out []byte) error {
	for _, p := range c.pieces(out) {
		if _, err := c.conn.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// resetStreams resets about half of the streams.
func (c *client) resetStreams(out []byte) []byte {
	c.streams.asked = slices.DeleteFunc(c.streams.asked, func(a *streamed) bool {
		if c.r.IntN(2) == 0 {
			return false
		}
		out = c.streams.http2.AppendReset(out, a.id, http2.Cancel)
		c.tally.lost++
		return true
	})
	return out
}

// read reads frames, and checks the answers that they complete.
func (s *streams) read(c *client, b []byte, troubled func() bool) error {
	s.in = append(s.in, b...)
	rest := s.in
	for {
		ev, err := s.http2.Next(time.Now(), rest, &s.head)
		if err != nil {
			return err
		}
		rest = rest[ev.N:]
		if ev.Kind == http2.NeedMore {
			s.in = slices.Clone(rest)
			return nil
		}
		if err := s.handle(c, &ev, troubled); err != nil {
			return err
		}
	}
}

func (s *streams) handle(c *client, ev *http2.Event, troubled func() bool) error {
	switch ev.Kind {
	case http2.GoAway:
		s.goAway = true
		return nil
	case http2.Data:
		s.http2.Consumed(ev.Stream, len(ev.Data))
	}
	i := slices.IndexFunc(s.asked, func(a *streamed) bool { return a.id == ev.Stream })
	if i < 0 { // of a stream that was reset
		return nil
	}
	a := s.asked[i]
	if ev.EndStream || ev.Kind == http2.Reset {
		s.asked = slices.Delete(s.asked, i, i+1)
	}
	switch ev.Kind {
	case http2.HeadDone:
		a.status = s.head.Status
	case http2.Data:
		a.body = append(a.body, ev.Data...)
	case http2.Reset:
		return s.cut(c, ev, a, troubled)
	}
	if !ev.EndStream {
		return nil
	}
	c.tally.byStatus[a.status]++
	return a.wrong(c.judge(a.request, a.status, a.body, troubled))
}

// cut handles that the proxy has reset a stream.
func (s *streams) cut(c *client, ev *http2.Event, a *streamed, troubled func() bool) error {
	switch {
	case ev.Unprocessed && s.goAway:
		c.tally.lost++
		return nil
	case a.status == 200 && (a.request.cut || troubled()):
		c.tally.byStatus[200]++
		c.tally.cut++
		return nil
	case ev.Err != nil:
		return a.wrong(ev.Err)
	}
	return a.wrong(fmt.Errorf("RST_STREAM %s after status %d and %d bytes", ev.Code, a.status, len(a.body)))
}

// wrong says which request an error belongs to.
func (a *streamed) wrong(err error) error {
	if err != nil {
		err = fmt.Errorf("%s %s by HTTP/2: %w", a.method, a.target, err)
	}
	return err
}

// judge checks a complete answer to q.
func (c *client) judge(q *request, status int, body []byte, troubled func() bool) error {
	switch {
	case !q.may(status, troubled()):
		return fmt.Errorf("answered %d %.200q, allowed %v", status, body, q.statuses)
	case status != 200:
		return nil
	case q.cut:
		return errors.New("a truncated answer looks complete")
	case !q.answers(body):
		return fmt.Errorf("got the answer to another request: %.200q", body)
	}
	return nil
}
