package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/net/share"
	"weir/internal/test/testkit"
)

// drippedBytes is what each dripping upload has sent of its body.
const drippedBytes = 200 << 10

// dripped is that. All share it: copies would be memory in use, too.
var dripped = bytes.Repeat([]byte("a"), drippedBytes)

// drip sends the head and most of the body of an upload.
func (r *rig) drip(ip string, fields string) *testkit.Conn {
	conn := r.dialFrom(ip)
	conn.Send(fmt.Sprintf("PUT /upload HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n", fields, drippedBytes+1))
	if _, err := conn.Write(dripped); err != nil {
		conn.T.Fatal(err)
	}
	return conn
}

// holds returns how many bytes a client holds at the proxy.
func (r *rig) holds(ip string) int64 {
	return r.Server.held().Of(share.ClientOf(netip.MustParseAddr(ip)))
}

// Everything that the requests of a client take is counted for that client, in whatever state
// they are, until it is given back: unfinished heads, bodies, and answers that it does not read.
// Behind a trusted proxy, its client counts from the end of the head on.
func TestMemoryIsCountedForItsClient(t *testing.T) {
	const some, head = 8 << 10, `"GET / HTTP/1.1\r\nHost: x\r\n`
	pad := strings.Repeat("a", some) + `"`
	for _, test := range []struct {
		name, sent, client string
		least              int64
	}{
		{"an idle connection", `""`, "127.0.0.2", plainBytes},
		{"an unfinished head", head + `X-Pad: ` + pad, "127.0.0.2", some},
		{"a body", `PUT / Content-Length=100000 part*8192`, "127.0.0.2", some},
		{"a request at the target", `PUT /held body*8192`, "127.0.0.2", some},
		{"an unfinished head of a trusted proxy", head + `X-Forwarded-For: 192.0.2.1\r\nX-Pad: ` + pad, "127.0.0.3", some},
		{"a body behind a trusted proxy", `PUT / X-Forwarded-For=192.0.2.1 Content-Length=100000 part*8192`, "192.0.2.1",
			some},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := serve(t, holds, "TRUSTED_PROXIES", "127.0.0.3/32")
			from := test.client
			if strings.Contains(test.name, "trusted") {
				from = "127.0.0.3"
			}
			r.playf(`a@%s %s`, from, test.sent)
			r.until("it is counted", func() bool { return r.holds(test.client) >= test.least })
			equal(t, "bytes that are counted for others", r.Server.held().Total()-r.holds(test.client), 0)
			r.play(`a resets`)
			r.until("nothing is", func() bool { return r.Server.held().Total() == 0 })
		})
	}
}

// A client that does not read an answer holds it, and is cut off; one that reads is not.
func TestMemoryOfUnreadAnswers(t *testing.T) {
	body := strings.Repeat("a", 24<<20) // more than the sockets take
	r := serve(t, says(answerOf(body)), "BODY_BUFFER_BYTES", "32MiB")
	r.play(`unread@127.0.0.2 GET /`)
	r.until("the answer is held", func() bool {
		return r.holds("127.0.0.2") > 1<<20 && r.samples()["ratelimiter_upstream_in_flight"] == 0
	})
	unreads := share.ClientOf(netip.MustParseAddr("127.0.0.2"))
	equal(t, "requests that are ended", r.Server.shedClients(map[share.Client]float64{unreads: 0}), 1)
	r.until("nothing is held", func() bool { return r.holds("127.0.0.2") == 0 })
	r.play(`unread -> cut; reads GET / -> 200`)
}

// withBudget starts a proxy that has room for about n dripping uploads.
func withBudget(t *testing.T, n int, env ...string) *rig {
	runtime.GC()
	most := (memoryInUse() + int64(n)*drippedBytes) * 5 / 4
	return serveWith(t, func(c *Config) { c.MemoryBudget = most }, echoes,
		append(env, "BODY_BUFFER_BYTES", "1MiB", "BODY_MIN_RATE", "0")...)
}

// While one client fills the memory with uploads that do not end, others are served: only the
// requests of that client are ended.
func TestMemoryShareOfOneClient(t *testing.T) {
	for _, test := range []struct {
		name, from, fields string
		env                []string
	}{
		{"its address", "127.0.0.2", "", nil},
		{"behind a trusted proxy", "127.0.0.3", "X-Forwarded-For: 192.0.2.1\r\n",
			[]string{"TRUSTED_PROXIES", "127.0.0.3/32"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := withBudget(t, 200, test.env...)
			neighbour, slow := r.dial(), r.drip("127.0.0.1", "")
			var ended atomic.Int64
			for range 500 {
				conn := r.drip(test.from, test.fields)
				go func() {
					if res, err := http.ReadResponse(conn.In, nil); err == nil && res.StatusCode == http.StatusServiceUnavailable {
						ended.Add(1)
					}
				}()
				neighbour.Ask(get, 200)
			}
			r.until("uploads are ended", func() bool { return ended.Load() > 100 })
			for range 100 {
				neighbour.Ask(get, 200)
			}
			slow.Send("b")
			slow.Status(200)
			r.metrics(`memory_sheds_total=0`) // everybody is served
			samples := r.samples()
			shed, refused := samples["ratelimiter_memory_client_sheds_total"],
				samples["ratelimiter_memory_client_refusals_total"]
			if shed == 0 || shed+refused < 100 {
				t.Errorf("%v were ended and %v refused of the client that holds most", shed, refused)
			}
			equal(t, "warnings", strings.Count(r.log.String(), "Memory is near the budget"), 1)
		})
	}
}

// Above the memory budget requests are turned away with 503, what is under way
// goes on and own endpoints answer; below it everybody is served again.
func TestMemoryBudget(t *testing.T) {
	runtime.GC()
	most := 2*memoryInUse() + 64<<20
	r := serveWith(t, func(c *Config) { c.MemoryBudget = most }, holds)
	r.play(`a GET / -> 200; target gets /; held GET /held; target gets /held`)

	ballast := make([]byte, most)
	for i := 0; i < len(ballast); i += 4 << 10 {
		ballast[i] = 1 // so that it is memory, not a promise
	}
	r.until("the budget is spent", r.memory.Shedding.Load)
	r.play(`
		shed PUT / Expect=100-continue Content-Length=1
		shed -> 503 Retry-After=1 closes error="the proxy is short of memory" + closed
		a GET / -> 503; b GET /actuator/health -> 200 "{"
		target answers; held -> 200 echo
		metrics memory_sheds_total=1 store_decisions_total=2`)
	runtime.KeepAlive(ballast)
	ballast = nil
	r.until("there is memory again", func() bool { return !r.memory.Shedding.Load() })
	r.play(`again GET / -> 200`)
}

// The number of connections from one address is bounded, whatever other addresses do; a
// connection that closes makes room.
func TestConnectionsPerAddress(t *testing.T) {
	serve(t, echoes, "MAX_CONNECTIONS_PER_IP", "3").play(`
		a*3@127.0.0.2 GET / -> 200; more,most@127.0.0.2 -> gone
		b@127.0.0.3 GET / -> 200; c@127.0.0.4 GET / -> 200; d@127.0.0.5 GET / -> 200; e@127.0.0.6 GET / -> 200
		f@127.0.0.7 GET / -> 200; a* GET / -> 200
		metrics client_connections_refused_address_total=2 client_connections_refused_total=0
		a1 closes; until client_connections=7; a1@127.0.0.2 GET / -> 200`)
}

// One client cannot take all connections: what it leaves is for others, whatever else it tries. A
// trusted proxy, which carries many clients, may take all.
func TestConnectionsShareOfOneClient(t *testing.T) {
	t.Parallel() // housekeeping looks once a second
	const most, left = 40, 5
	r := serve(t, echoes, "MAX_CONNECTIONS", strconv.Itoa(most), "TRUSTED_PROXIES", "127.0.0.9/32")
	take := func(ip string, tries int) (in []*testkit.Conn) {
		for range tries {
			conn := r.dialFrom(ip)
			conn.Send(get)
			if _, err := http.ReadResponse(conn.In, nil); err == nil {
				in = append(in, conn)
			}
		}
		return in
	}
	attack := take("127.0.0.2", 2*most)
	equal(t, "connections of one client", len(attack), most-left)
	for i := range left - 1 {
		equal(t, fmt.Sprint("connections of client ", i+1), len(take(fmt.Sprintf("127.0.0.%d", 3+i), 1)), 1)
	}
	r.metrics(`client_connections_refused_share_total=%d client_connections_refused_total=0`, most+left)
	r.play(`logged "Connections were refused"; logged 1 "Connections were refused"`)
	for _, conn := range attack {
		conn.Close()
	}
	r.playf(`until client_connections=%d`, left-1)
	equal(t, "connections of a trusted proxy, which may have all", len(take("127.0.0.9", 2*most)), most-left+1)
}

// Clients that connect and leave, or are one too many, cost the others nothing.
func TestConnectFlood(t *testing.T) {
	r := serve(t, echoes, "MAX_CONNECTIONS", "50")
	r.play(`neighbour GET / -> 200`)
	end := watchHeap(t, 16<<20)
	for i := range 2000 {
		conn := r.dial()
		if i%2 == 0 {
			conn.Reset()
		} else {
			conn.Close()
		}
		if i%100 == 0 {
			r.play(`neighbour GET / -> 200`)
		}
	}
	r.play(`until client_connections=1`)
	end()
	r.play(`neighbour GET / -> 200; other GET / -> 200`)
}
