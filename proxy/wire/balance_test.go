package wire

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/upstream"
)

// newMember starts one of several targets: it answers with its name, as its status and health say, and
// holds as others do.
func newMember(t *testing.T, name string) *fakeTarget {
	addr := testkit.FreeAddr(t)
	return newMemberAt(t, name, addr)
}

func newMemberAt(t *testing.T, name, addr string) *fakeTarget {
	m := newTargetAt(t, addr, each(func(c *targetConn, s *seen) {
		status := c.at.status.Load()
		switch s.target() {
		case "/health":
			status = c.at.health.Load()
		case "/held":
			c.at.gate.asked <- s.target()
			c.at.gate.pass(c)
		}
		host, _ := s.head.Value(http1.FieldHost)
		c.say(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\nX-Host: %s\r\n\r\n%s", status, len(name), host, name))
	}))
	m.name = name
	m.status.Store(200)
	m.health.Store(200)
	return m
}

// spec is the target as the proxy has it.
func (f *fakeTarget) spec() *roster.Target {
	return &roster.Target{URL: f.url(), Addr: f.addr, Host: f.addr}
}

// members starts targets and a proxy over one loop, which takes turns.
func members(t *testing.T, names string, env ...string) (*rig, map[string]*fakeTarget) {
	t.Helper()
	all := make(map[string]*fakeTarget)
	var urls []string
	for _, name := range strings.Fields(names) {
		all[name] = newMember(t, name)
		urls = append(urls, all[name].url())
	}
	return start(t, strings.Join(urls, ","), append(env, "EVENT_LOOPS", "1", "TARGET_BALANCE", "round_robin",
		"CONNECTION_MAX_REQUESTS", "0")...), all
}

// statusOf is how the proxy says that a target is.
func (r *rig) statusOf(m *fakeTarget) roster.Status {
	r.t.Helper()
	for _, st := range r.Targets.Status() {
		if st.URL == m.url() {
			return st
		}
	}
	r.t.Fatalf("%s is no target", m.name)
	return roster.Status{}
}

// known reports whether all loops have a target in a state. The list has the verdict of a check
// before them.
func (r *rig) known(url, status string) bool {
	for _, spec := range r.Targets.All() {
		for t := range r.loops.of(spec) {
			if spec.URL == url && upstream.Status(t.Status.Load()).String() != status {
				return false
			}
		}
	}
	return true
}

// A target that answers with 502 again and again is left alone, the others get
// everything; after a while one request finds out that it is well again.
func TestEjection(t *testing.T) {
	t.Parallel() // waits for a second
	r, all := members(t, "a b", "CONNECTION_MAX_REQUESTS", "0")
	a, b := all["a"], all["b"]
	a.status.Store(502)
	conn := r.dial()
	for range 5 {
		conn.Ask(get, 502)
		conn.Ask(get, 200)
	}
	if st := r.statusOf(a); st.Status != "ejected" || st.Ejections != 1 {
		t.Errorf("after five 502 the target is %+v", st)
	}
	a.status.Store(200)
	for served := a.served.Load(); a.served.Load() == served && !t.Failed(); {
		conn.Ask(get, 200) // the one that finds out among them
	}
	r.until("the target is up", func() bool { return r.statusOf(a).Status == "up" && r.known(a.url(), "up") })
	before := b.served.Load()
	for range 10 {
		conn.Ask(get, 200)
	}
	if n := b.served.Load() - before; n != 5 {
		t.Errorf("the other target served %d of 10 requests afterwards", n)
	}
}

// A target that comes back gets its share again without anybody's doing.
func TestTargetComesBack(t *testing.T) {
	t.Parallel() // looks once a second
	r, all := members(t, "a b")
	all["a"].kill()
	conn := r.dial()
	for range 10 {
		conn.Ask(get, 200)
	}
	if st := r.statusOf(all["a"]); st.Status != "down" || st.Cause != "connection refused" {
		t.Errorf("the target that is gone is %+v", st)
	}
	all["a"].start()
	r.until("it is up", func() bool { return r.statusOf(all["a"]).Status == "up" && r.known(all["a"].url(), "up") })
	for range 10 {
		conn.Ask(get, 200)
	}
	if n := all["a"].served.Load(); n != 5 {
		t.Errorf("it served %d of 10 requests", n)
	}
}

// Where least is under way goes the next request.
func TestLeastInFlight(t *testing.T) {
	a, b := newMember(t, "a"), newMember(t, "b")
	r := start(t, a.url()+","+b.url(), "EVENT_LOOPS", "1", "TARGET_BALANCE", "least_inflight")
	held := r.dial()
	held.Send(request("/held"))
	busy, free := a, b
	select {
	case <-a.gate.asked:
	case <-b.gate.asked:
		busy, free = b, a
	}
	conn := r.dial()
	for range 10 {
		conn.Ask(get, 200)
	}
	if n := free.served.Load(); n != 10 {
		t.Errorf("the free target served %d of 10 requests", n)
	}
	busy.gate.open <- true
	held.Status(200)
}

// Active checks take targets out although they would answer: no request goes
// there. With all out the answer is 503 at once, and says when to come again.
func TestActiveChecks(t *testing.T) {
	t.Parallel() // several checks in a row, each of which may take as long as the interval
	r, all := members(t, "a b", "TARGET_HEALTH_PATH", "/health", "TARGET_HEALTH_INTERVAL", "500ms")
	a, b := all["a"], all["b"]
	is := func(m *fakeTarget, status, check string) {
		t.Helper()
		r.until(m.name+" is "+status+" and the loops know it", func() bool {
			st := r.statusOf(m)
			return st.Status == status && st.Check == check && r.known(m.url(), status)
		})
	}
	is(a, "up", "up")
	is(b, "up", "up")
	a.health.Store(500)
	is(a, "down", "down")
	conn := r.dial()
	for range 10 {
		if body := conn.Ask(get, 200); body != "b" {
			t.Errorf("%s answers, which is down", body)
		}
	}
	b.health.Store(404)
	is(b, "down", "down")
	served := b.served.Load()
	for range 3 {
		conn.Send(get)
		if res, body := conn.Status(503); res.Header.Get("Retry-After") != "1" || res.Close ||
			body != `{"error":"no target can be reached"}`+"\n" {
			t.Errorf("answered %v %q", res.Header, body)
		}
	}
	if a.served.Load() != 0 || b.served.Load() != served {
		t.Error("a request went to a target that is down")
	}
	if up := r.Targets.Up(); up[a.addr] || up[b.addr] {
		t.Errorf("targets up: %v", up)
	}
	a.health.Store(204)
	is(a, "up", "up")
	if body := conn.Ask(get, 200); body != "a" {
		t.Errorf("answered %q", body)
	}
	for _, m := range []*fakeTarget{a, b} {
		cause := fmt.Sprintf(`cause="check of /health: answered %d"`, map[*fakeTarget]int{a: 500, b: 404}[m])
		r.until("it is logged that "+m.name+" was down", func() bool {
			return strings.Count(r.log.String(),
				fmt.Sprintf(`msg="Target is down" component=RateLimiter target=%s address=%s %s`, m.url(), m.addr, cause)) == 1
		})
	}
}

// A target that does not answer its check in time, or cannot be reached, is
// down as well.
func TestActiveChecksOfTheGone(t *testing.T) {
	gone, silent := newTarget(t, echoes), newTarget(t, func(c *targetConn) { c.next(); c.silence() })
	gone.kill()
	r := start(t, gone.url()+","+silent.url(), "TARGET_HEALTH_PATH", "/health", "TARGET_HEALTH_INTERVAL", "30ms")
	r.until("both are down", func() bool {
		list := r.Targets.Status()
		return list[0].Status == "down" && list[1].Status == "down" && r.known(gone.url(), "down") &&
			r.known(silent.url(), "down")
	})
	r.dial().Ask(get, 503)
}

// The targets change repeatedly while requests arrive, some with bodies and over kept-alive
// connections. No request is lost, and removed targets finish what they have begun and are
// disconnected.
func TestTargetsChangeUnderLoad(t *testing.T) {
	var all []*fakeTarget
	for i := range 4 {
		all = append(all, newMember(t, fmt.Sprint(i)))
	}
	r := start(t, all[0].url(), "TARGET_IDLE_TIMEOUT", "1h")
	var load sync.WaitGroup
	var done atomic.Int64
	var over atomic.Bool
	for i := range 8 {
		conn := r.dial()
		sent := []string{get, "PUT /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"}[i%2]
		load.Go(func() {
			for !over.Load() {
				if _, err := fmt.Fprint(conn, sent); err != nil {
					t.Errorf("ask: %v", err)
					return
				}
				if res, body, err := final(conn.In, "GET"); err != nil || res.StatusCode != 200 || res.Close {
					t.Errorf("answered %v %q, %v", res, body, err)
					return
				}
				done.Add(1)
			}
		})
	}
	for i := range 200 {
		list := []*roster.Target{all[i%4].spec(), all[(i+1)%4].spec()}
		r.Targets.Set(list[:1+i%2])
		since := done.Load()
		r.until("every client has had an answer", func() bool { return done.Load() >= since+8 || t.Failed() })
	}
	over.Store(true)
	load.Wait()
	last := all[0]
	r.Targets.Set([]*roster.Target{last.spec()})
	for _, m := range all[1:] {
		r.until("the connections to "+m.name+" are closed", func() bool { return m.open() == 0 })
		if m.served.Load() == 0 {
			t.Errorf("%s never served", m.name)
		}
	}
	if list := r.Targets.Status(); len(list) != 1 || list[0].URL != last.url() || list[0].Status != "up" {
		t.Errorf("in the end the targets are %+v", list)
	}
}

// What is under way at a target that leaves is still answered by it.
func TestTargetLeaves(t *testing.T) {
	r, all := members(t, "a")
	a, b := all["a"], newMember(t, "b")
	held := r.dial()
	held.Send(request("/held"))
	a.gate.next(t)
	r.Targets.Set([]*roster.Target{b.spec()})
	conn := r.dial()
	if body := conn.Ask(get, 200); body != "b" {
		t.Errorf("%q answers", body)
	}
	a.gate.open <- true
	if _, body := held.Status(200); body != "a" {
		t.Errorf("what was under way is answered by %q", body)
	}
	if body := held.Ask(get, 200); body != "b" {
		t.Errorf("the next request is answered by %q", body)
	}
	r.until("the target that left is disconnected", func() bool { return a.open() == 0 })
}

// With HOST_HEADER=target each target is called by its own name, also when a
// request goes on to another one.
func TestEachTargetsHost(t *testing.T) {
	r, all := members(t, "a b", "HOST_HEADER", "target")
	conn := r.dial()
	ask := func() {
		t.Helper()
		conn.Send(get)
		res, body := conn.Status(200)
		if host := res.Header.Get("X-Host"); host != all[body].addr {
			t.Errorf("%s, which is %s, is called %s", body, all[body].addr, host)
		}
	}
	for range 4 {
		ask()
	}
	if a, b := all["a"].served.Load(), all["b"].served.Load(); a != 2 || b != 2 {
		t.Errorf("%d and %d of 4 requests", a, b)
	}
	all["a"].kill()
	for range 4 {
		ask()
	}
}
