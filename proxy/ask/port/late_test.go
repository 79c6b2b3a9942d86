package port

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/proxy/ask/check"
	"weir/proxy/store/simredis"
)

// stuck is a store whose edits wait for the test.
type stuck struct {
	slow
	edits atomic.Int32
	hold  chan struct{}
}

func (s *stuck) Add(rule string, key []byte, n int64) (bool, error) {
	s.edits.Add(1)
	<-s.hold
	return s.Store.Add(rule, key, n)
}

// startStuck starts a port over such a store, which end lets go on and ends.
func startStuck(t *testing.T, timeout time.Duration) (p *Server, s *stuck, end func()) {
	t.Helper()
	memory := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	s = &stuck{slow: slow{Store: memory}, hold: make(chan struct{})}
	_, limits := shopLimits(t, new(testkit.LogRecords))
	p = startWith(t, Config{Limits: limits, Store: s, EditTimeout: timeout})
	release := sync.OnceFunc(func() { close(s.hold) })
	end = sync.OnceFunc(func() {
		release()
		p.Drain(context.Background())
		memory.Close()
	})
	t.Cleanup(end)
	return p, s, end
}

// giving is a request that gives hits back to two keys.
const giving = `{"domain":"shop","descriptors":[
	{"entries":[{"key":"user","value":"a"}],"hitsAddend":"1","isNegativeHits":true},
	{"entries":[{"key":"user","value":"b"}],"hitsAddend":"1","isNegativeHits":true}]}`

// The time of an exchange with edits counts from its first edit, through all of them and the
// asks behind; what comes of them later changes no other exchange of its connection.
func TestEditsAreBounded(t *testing.T) {
	const timeout = time.Hour
	for name, test := range map[string]struct {
		request string
		lets    int // edits that the store does
		asked   int // asks that wait then
		status  int
	}{
		"an edit":             {request("POST", "/v1/edit", "admin", `{"rule":"r","key":"YQ==","add":1}`), 0, 0, 503},
		"the first of two":    {request("POST", "/json", "secret", giving), 0, 0, 500},
		"the second":          {request("POST", "/json", "secret", giving), 1, 0, 500},
		"the asks behind":     {request("POST", "/json", "secret", giving), 2, 1, 500},
		"a key without limit": {request("POST", "/json", "secret", strings.ReplaceAll(giving, "user", "unknown")), 0, 0, 200},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, _ := startStuck(t, timeout)
			c := testkit.Dial(t, p.Addr().String())
			c.Send(test.request)
			if test.status == 200 {
				if res, body := c.Answer("POST"); res.StatusCode != 200 {
					t.Errorf("%d %s", res.StatusCode, body)
				}
				return
			}
			for i := range test.lets {
				testkit.Eventually(t, "an edit is under way", func() bool { return s.edits.Load() == int32(i+1) })
				s.hold <- struct{}{}
			}
			testkit.Eventually(t, "it waits", func() bool {
				asked := on(p, func(time.Time, *side) int { return len(s.lane.waiting) })
				return asked == test.asked && (asked > 0 || s.edits.Load() == int32(test.lets+1))
			})
			late := func(at time.Duration) (waits bool) {
				return on(p, func(_ time.Time, r *side) (waits bool) {
					r.loop.Each(func(_ *loop.Conn, h loop.Handler) {
						deadline := h.(*conn).session.Deadline()
						h.Expired(deadline.Add(at))
						waits = h.(*conn).session.Deadline().Equal(deadline)
					})
					return waits
				})
			}
			if !late(-1) {
				t.Error("it does not wait until its time")
			}
			late(0)
			if res, body := c.Answer("POST"); res.StatusCode != test.status || !strings.Contains(body, "in time") {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			c.Send(request("POST", "/json", "secret", entry("two", "x", "")))
			testkit.Eventually(t, "the next asks", func() bool {
				return on(p, func(time.Time, *side) int { return len(s.lane.waiting) }) == test.asked+1
			})
			if test.asked == 0 {
				s.hold <- struct{}{}
			}
			on(p, func(now time.Time, r *side) bool {
				for _, answer := range s.lane.waiting {
					answer(now)
				}
				return true
			})
			if res, body := c.Answer("POST"); res.StatusCode != 200 || strings.Count(body, `"code":"OK"`) != 1 {
				t.Errorf("the next: %d %s", res.StatusCode, body)
			}
		})
	}
}

// Edits whose callers have stopped waiting are not executed.
func TestLateEditsAreSkipped(t *testing.T) {
	p, s, end := startStuck(t, 20*time.Millisecond)
	for range 3 {
		c := testkit.Dial(t, p.Addr().String())
		c.Send(request("POST", "/json", "secret", giving))
		if res, body := c.Answer("POST"); res.StatusCode != 500 {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	}
	s.hold <- struct{}{}
	end()
	if n := s.edits.Load(); n != 1 {
		t.Errorf("%d edits are done, want the one that was under way", n)
	}
}

// One asker does not take all the places of edits.
func TestEditsShare(t *testing.T) {
	p, _, _ := startStuck(t, time.Hour)
	now := time.Now()
	gone := check.New(now, &p.sides[0].env, netip.Addr{}, false)
	gone.HandleClosed(now)
	enter := func(addr string) bool {
		e := check.Edit{Rule: "r", Add: 1, Until: now.Add(time.Hour), From: netip.MustParseAddr(addr)}
		return p.sides[0].edit(now, gone, &e)
	}
	n := 0
	for n <= editsMax && enter("192.0.2.1") {
		n++
	}
	if n != editsMax/2 || !enter("192.0.2.2") {
		t.Errorf("one asker has %d places, want %d, and another one finds one", n, editsMax/2)
	}
}
