package wire

import (
	"fmt"
	"strings"
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
			c.hold(s)
		}
		host, _ := s.head.Value(http1.FieldHost)
		c.say(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\nX-Host: %s\r\n\r\n%s", status, len(name), host, name))
	}))
	m.status.Store(200)
	m.health.Store(200)
	return m
}

// spec is the target as the proxy has it.
func (f *fakeTarget) spec() *roster.Target {
	return &roster.Target{URL: f.url(), Addr: f.addr, Host: f.addr}
}

// members starts targets and a proxy over one loop, which takes turns.
func members(t *testing.T, tweak func(c *Config), names string, env ...string) *rig {
	t.Helper()
	all := make(map[string]*fakeTarget)
	for _, name := range strings.Fields(names) {
		all[name] = newMember(t, name)
	}
	return before(t, tweak, all, append(env, "EVENT_LOOPS", "1", "TARGET_BALANCE", "round_robin",
		"CONNECTION_MAX_REQUESTS", "0")...)
}

// statusOf is how the proxy says that a target is.
func (r *rig) statusOf(f *fakeTarget) roster.Status {
	r.t.Helper()
	for _, st := range r.Targets.Status() {
		if st.URL == f.url() {
			return st
		}
	}
	r.t.Fatalf("%s is no target", f.url())
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
	r := members(t, asSet, "a b")
	r.play(`
		a status 502
		5 x GET / -> 502; GET / -> 200`)
	a := r.targets["a"]
	if st := r.statusOf(a); st.Status != "ejected" || st.Ejections != 1 {
		t.Errorf("after five 502 the target is %+v", st)
	}
	r.play(`a status 200`)
	for a.served.Load() == 5 && !t.Failed() {
		r.play(`GET / -> 200`) // the one that finds out among them
	}
	r.play(`a is up`)
	before := r.targets["b"].served.Load()
	r.playf(`
		10 x GET / -> 200
		b served %d`, before+5)
}

// A target that comes back gets its share again without anybody's doing.
func TestTargetComesBack(t *testing.T) {
	t.Parallel() // looks once a second
	r := members(t, asSet, "a b")
	r.play(`
		a stops
		10 x GET / -> 200`)
	if st := r.statusOf(r.targets["a"]); st.Status != "down" || st.Cause != "connection refused" {
		t.Errorf("the target that is gone is %+v", st)
	}
	r.play(`
		a starts; a is up
		10 x GET / -> 200
		a served 5`)
}

// Where least is under way goes the next request.
func TestLeastInFlight(t *testing.T) {
	r := members(t, asSet, "a b", "TARGET_BALANCE", "least_inflight")
	r.play(`held GET /held; waiting 1
		10 x GET / -> 200`)
	busy, free := r.targets["a"], r.targets["b"]
	if free.served.Load() == 1 {
		busy, free = free, busy
	}
	equal(t, "requests at the free target", free.served.Load(), int64(10))
	busy.let <- true
	r.play(`held -> 200`)
}

// Active checks take targets out although they would answer: no request goes
// there. With all out the answer is 503 at once, and says when to come again.
func TestActiveChecks(t *testing.T) {
	t.Parallel() // several checks in a row, each of which may take as long as the interval
	r := members(t, asSet, "a b", "TARGET_HEALTH_PATH", "/health", "TARGET_HEALTH_INTERVAL", "500ms")
	a, b := r.targets["a"], r.targets["b"]
	checked := func(f *fakeTarget, check string) {
		t.Helper()
		r.until("the check says "+check, func() bool { return r.statusOf(f).Check == check })
	}
	r.play(`a is up; b is up`)
	checked(a, "up")
	checked(b, "up")
	r.play(`
		a health 500; a is down
		10 x GET / -> 200 ="b"
		b health 404; b is down; b served 10
		3 x GET / -> 503 Retry-After=1 stays error="no target can be reached"
		a served 0; b served 10`)
	checked(a, "down")
	checked(b, "down")
	if up := r.Targets.Up(); up[a.addr] || up[b.addr] {
		t.Errorf("targets up: %v", up)
	}
	r.play(`a health 204; a is up; GET / -> 200 ="a"`)
	checked(a, "up")
	for f, status := range map[*fakeTarget]int{a: 500, b: 404} {
		line := fmt.Sprintf(`msg="Target is down" component=RateLimiter target=%s address=%s cause="check of /health: answered %d"`,
			f.url(), f.addr, status)
		r.playf(`logged %[1]q; logged 1 %[1]q`, line)
	}
}

// A target that does not answer its check in time, or cannot be reached, is
// down as well.
func TestActiveChecksOfTheGone(t *testing.T) {
	gone, silent := newTarget(t, echoes), newTarget(t, func(c *targetConn) { c.next(); c.silence() })
	gone.kill()
	before(t, asSet, map[string]*fakeTarget{"gone": gone, "silent": silent}, "TARGET_HEALTH_PATH", "/health",
		"TARGET_HEALTH_INTERVAL", "30ms").play(`gone is down; silent is down; GET / -> 503`)
}

// The targets change repeatedly while requests arrive, some with bodies and over kept-alive
// connections. No request is lost, and removed targets finish what they have begun and are
// disconnected.
func TestTargetsChangeUnderLoad(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	r := members(t, asSet, strings.Join(names, " "), "EVENT_LOOPS", "2", "TARGET_BALANCE", "p2c",
		"TARGET_IDLE_TIMEOUT", "1h")
	done, end := r.load(8, func(i int, c *testkit.Conn) bool {
		_, wrong := fmt.Fprint(c, []string{get, "PUT /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"}[i%2])
		res, body, err := final(c.In, "GET")
		if wrong != nil || err != nil || res.StatusCode != 200 || res.Close {
			t.Errorf("answered %v %q, %v, %v", res, body, wrong, err)
			return false
		}
		return true
	})
	for i := range 200 {
		r.play("targets " + strings.Join([]string{names[i%4], names[(i+1)%4]}[:1+i%2], " "))
		since := done.Load()
		r.until("every client has had an answer", func() bool { return done.Load() >= since+8 || t.Failed() })
	}
	end()
	r.play(`targets a; b open 0; c open 0; d open 0; a is up`)
	for _, name := range names[1:] {
		if r.targets[name].served.Load() == 0 {
			t.Errorf("%s never served", name)
		}
	}
	equal(t, "targets in the end", len(r.Targets.Status()), 1)
}

// What is under way at a target that leaves is still answered by it.
func TestTargetLeaves(t *testing.T) {
	r := members(t, asSet, "a b")
	r.play(`
		targets a; held GET /held; a gets /held; targets b; GET / -> 200 ="b"
		a answers; held -> 200 ="a"; held GET / -> 200 ="b"; a open 0`)
}

// With HOST_HEADER=target each target is called by its own name, also when a
// request goes on to another one.
func TestEachTargetsHost(t *testing.T) {
	r := members(t, asSet, "a b", "HOST_HEADER", "target")
	called := fmt.Sprintf("GET / -> 200 ="+`"a" X-Host=%s; GET / -> 200 ="b" X-Host=%s`, r.targets["a"].addr,
		r.targets["b"].addr)
	r.play("2 x " + called)
	r.playf(`a stops
		4 x GET / -> 200 ="b" X-Host=%s`, r.targets["b"].addr)
}
