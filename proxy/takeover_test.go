package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// A proxy that drains is out of service until it ends, though its target can be
// reached all the time.
func TestReadinessWhileDraining(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	env := []string{"TARGET_URL", target.URL, "TAKEOVER", "true", "PORT", testkit.FreePort(t), "DRAIN_GRACE",
		testkit.Patience.String(), "DRAIN_TIMEOUT", testkit.Patience.String(),
		"RATE_LIMIT_LIMIT", "1", "RATE_LIMIT_WINDOW", "3153600000"}
	old := launch(t, env)
	var kept []*testkit.Conn
	for range 8 {
		c := testkit.Dial(t, old.addr)
		kept = append(kept, c)
		if status, body := exchangeOn(c, "GET /actuator/health HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 {
			t.Fatalf("answered %d %s", status, body)
		}
	}
	exchangeOn(kept[0], "GET /x HTTP/1.1\r\nHost: x\r\n\r\n") // spends the limit
	launch(t, env)
	old.Logged("INFO Proxy - Draining")
	const refused = "Requests rejected: limit exceeded"
	for i, c := range kept[1:] {
		request := "/actuator/health/readiness"
		if i%2 == 0 { // the line about it is written once a second, as targets are probed
			request = "/x"
		}
		status, body := exchangeOn(c, "GET "+request+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if request == "/x" {
			old.LoggedTimes(refused, i/2+1)
		} else if status != 503 || !strings.Contains(body, `"OUT_OF_SERVICE"`) {
			t.Errorf("answered %d %s while draining", status, body)
		}
	}
}

// A load is clients that do the same again and again, each time over a new connection, until
// stopped.
type load struct {
	t     *testing.T
	ended sync.WaitGroup
	over  atomic.Bool
	done  atomic.Int64 // how often do has returned true
}

func startLoad(t *testing.T, do func(client *http.Client, n, i int) bool) *load {
	l := &load{t: t}
	t.Cleanup(l.stop)
	for n := range 4 {
		l.ended.Go(func() {
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Patience}
			for i := 0; !l.over.Load() && !t.Failed(); i++ {
				if do(&client, n, i) {
					l.done.Add(1)
				}
			}
		})
	}
	return l
}

// more waits until do has returned true n times more.
func (l *load) more(n int64) {
	l.t.Helper()
	since := l.done.Load()
	testkit.Eventually(l.t, "clients are answered", func() bool { return l.t.Failed() || l.done.Load() >= since+n })
}

func (l *load) stop() {
	l.over.Store(true)
	l.ended.Wait()
}

// callAt starts clients of whom all must be answered: a gate would shed those that wait for
// long on a busy machine.
func callAt(t *testing.T, addr string) *load {
	return startLoad(t, func(client *http.Client, _, _ int) bool {
		res, err := client.Get("http://" + addr + "/x")
		if err != nil || res.StatusCode != 200 {
			t.Errorf("answered %v, %v", res, err)
			return false
		}
		res.Body.Close()
		return true
	})
}

// A successor has the address of its own BIND, and clients of an address that
// both have notice nothing.
func TestTakeoverWithAnotherBind(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	for name, binds := range map[string][]string{
		"narrower":       {"0.0.0.0", "127.0.0.1"},
		"wider":          {"127.0.0.1", "0.0.0.0", "0.0.0.0"},
		"there and back": {"127.0.0.1", "0.0.0.0", "127.0.0.1", "0.0.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			port := testkit.FreePort(t)
			env := []string{"TARGET_URL", target.URL, "TAKEOVER", "true", "PORT", port, "RATE_LIMIT_LIMIT", "1000000000",
				"GATE", "off",
				// who has dialled may be slow to ask
				"DRAIN_GRACE", testkit.Patience.String(), "DRAIN_TIMEOUT", testkit.Patience.String()}
			var before *running
			var calls *load
			for _, bind := range binds {
				p := launch(t, append(env, "BIND", bind))
				if calls == nil {
					calls = callAt(t, "127.0.0.1:"+port)
				}
				calls.more(200)
				testkit.Eventually(t, "BIND="+bind+" is in force", func() bool {
					c, err := net.DialTimeout("tcp", "127.0.0.2:"+port, time.Second)
					if err == nil {
						c.Close()
					}
					return (err == nil) == (bind == "0.0.0.0")
				})
				if before != nil {
					before.stops(0)
				}
				before = p
				calls.more(200)
			}
			calls.stop()
		})
	}
}

// The admin port goes from proxy to proxy without an error, and is there all the
// time.
func TestTakeoverOfTheAdminPort(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	admin := testkit.FreePort(t)
	env := []string{"TARGET_URL", target.URL, "TAKEOVER", "true", "PORT", testkit.FreePort(t), "ADMIN_PORT", admin,
		"DRAIN_GRACE", "10ms"}
	before := launch(t, env)
	for range 3 {
		p := launch(t, env)
		before.stops(0)
		if lines := before.Log.Lines(" ERROR "); len(lines) > 0 {
			t.Errorf("logged %q", lines)
		}
		if status, body := ask(t, "127.0.0.1:"+admin, "/actuator/health/readiness"); status != 200 {
			t.Errorf("answered %d %s at the admin port", status, body)
		}
		before = p
	}
}

// What was posted to a proxy without a shared store holds for its successors:
// targets, limits and rules, with their versions. A TARGET_URL that was changed
// for a successor overrides posted targets.
func TestTakeoverKeepsWhatWasPosted(t *testing.T) {
	answers := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	set, posted, later := answers("set"), answers("posted"), answers("later")
	port := testkit.FreePort(t)
	env := []string{"TAKEOVER", "true", "PORT", port, "DRAIN_GRACE", "10ms", "RATE_LIMIT_LIMIT", "1000"}
	with := func(target string) []string { return append(env, "TARGET_URL", target) }
	p := launch(t, with(set))
	p.gets("POST /config/targets", 200, posted, fmt.Sprintf(`{"targets":[%q]}`, posted))
	p.gets("POST /config/limits", 200, `"version":1`, `{"algorithm":"fixed","limit":77,"window":60}`)
	p.gets("POST /config/limits?pin=true", 200, `"version":2`, `{"algorithm":"fixed","limit":78,"window":60}`)
	p.gets("PUT /config/rules", 200, "",
		`{"rules":[{"id":"none","match":{"path":"/none"},"limit":{"algorithm":"fixed","limit":1,"window":3153600000}}]}`)
	for range 2 {
		next := launch(t, with(set))
		p.stops(0)
		p = next
		p.gets("GET /x", 200, "posted")
		p.gets("GET /config/limits", 200, `"limit":78`)
		p.gets("GET /config/limits", 200, `"version":2`)
		p.gets("GET /config/rules", 200, `"id":"none"`)
	}
	p.gets("POST /config/limits", 200, `"version":3`, `{"algorithm":"fixed","limit":79,"window":60}`)
	next := launch(t, with(later))
	p.stops(0)
	next.gets("GET /x", 200, "later")
	next.gets("GET /config/limits", 200, `"limit":79`)
}

// The decision port goes from master to master, and no request of a sidecar is decided by
// anybody else meanwhile.
func TestTakeoverOfTheDecisionPort(t *testing.T) {
	decides := testkit.FreePort(t)
	// longer than a sidecar is silent
	env := []string{"TAKEOVER", "true", "PORT", testkit.FreePort(t), "RATE_LIMIT_LIMIT", "1000000000", "DRAIN_GRACE", "1s"}
	before := startMaster(t, decides, env...)
	sidecar := startSidecar(t, "REMOTE_URL", "http://127.0.0.1:"+decides, "RATE_LIMIT_LIMIT", "1000000000",
		"TARGET_URL", named(t), "GATE", "off")
	load := callAt(t, sidecar.addr)
	for range 3 {
		load.more(200)
		p := startMaster(t, decides, env...)
		before.stops(0)
		load.more(200)
		if _, text := p.call("GET /metrics"); !strings.Contains(text, `{api="remote",code="200"} `) ||
			strings.Contains(text, `{api="remote",code="200"} 0`+"\n") {
			t.Error("the successor has decided nothing")
		}
		before = p
	}
	load.stop()
	for _, reason := range []string{"late", "crowded", "away"} {
		sidecar.gets("GET /metrics", 200, `ratelimiter_store_undecided_total{reason="`+reason+`"} 0`)
	}
	if lines := sidecar.Log.Lines(" RemoteStore - "); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// Any user of the machine can hold the name under which a proxy would be found, and must not
// keep the proxy from starting.
func TestTakeoverNameHeldByAStranger(t *testing.T) {
	port := testkit.FreePort(t)
	held := testkit.Must(net.Listen("unixpacket", "@weir/proxy/"+port))(t)
	defer held.Close()
	cmd := program(t, []string{"TAKEOVER", "true", "PORT", port})
	testkit.Unmapped(t, cmd) // there the holder's user is unknown
	p := testkit.Start(t, cmd)
	p.Logged("WARN Proxy - Not taking the port over")
	p.Logged("INFO Proxy - Ready")
	p.Logged("WARN Proxy - This proxy cannot be taken over from")
	if status := p.Stop(syscall.SIGTERM); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
}
