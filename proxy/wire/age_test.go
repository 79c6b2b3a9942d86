package wire

import "testing"

// An old connection to a target is no longer used, without effect on clients: a new one takes its
// place, also for requests that wait.
func TestTargetConnectionMaxAge(t *testing.T) {
	target := newTarget(t, echoes)
	r := start(t, target.url(), "EVENT_LOOPS", "1", "TARGET_CONNECTION_MAX_AGE", "1us", "TARGET_MAX_CONNECTIONS", "1")
	one, two := r.dial(), r.dial()
	for range 20 {
		one.Send(get)
		two.Send(get)
		one.Status(200)
		two.Status(200)
	}
	if opened := target.opened.Load(); opened != 40 {
		t.Errorf("40 requests were sent over %d connections", opened)
	}
	r.until("each is counted", func() bool { return r.samples()["ratelimiter_upstream_connections_aged_total"] == 40 })
	r.samplesAre("ratelimiter_upstream_retries_total", 0)
}

// Old connections that are idle are closed.
func TestIdleTargetConnectionMaxAge(t *testing.T) {
	target := newTarget(t, echoes)
	r := start(t, target.url(), "TARGET_CONNECTION_MAX_AGE", "30ms", "TARGET_IDLE_TIMEOUT", "1h")
	r.dial().Ask(get, 200)
	r.until("the idle connection is closed", func() bool { return target.open() == 0 })
}

// The last answer that a client connection gets announces the close, and the
// connections that end so are counted.
func TestConnectionMaxRequests(t *testing.T) {
	r := start(t, newTarget(t, echoes).url(), "CONNECTION_MAX_REQUESTS", "3")
	conn := r.dial()
	for range 2 {
		conn.Ask(get, 200)
	}
	conn.Send(get)
	ends(conn, echoOf("GET", "/api", ""))
	r.samplesAre("ratelimiter_client_connections_spent_total", 1)
}

// As does the first answer after the connection's time.
func TestConnectionMaxAge(t *testing.T) {
	conn := start(t, newTarget(t, echoes).url(), "CONNECTION_MAX_AGE", "1us").dial()
	conn.Send(get)
	ends(conn, echoOf("GET", "/api", ""))
}
