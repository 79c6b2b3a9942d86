package wire

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"testing"

	"weir/internal/test/testkit"
)

// Above the memory budget requests are turned away with 503, what is under way
// goes on and own endpoints answer; below it everybody is served again.
func TestMemoryBudget(t *testing.T) {
	runtime.GC()
	most := 2*InUse() + 64<<20
	g := newBarrier()
	r := startWith(t, func(c *Config) { c.MemoryBudget = most }, newTarget(t, g.script).url())
	conn, held := r.dial(), r.dial()
	conn.Ask(get, 200)
	g.next(t)
	held.Send(request("/held"))
	g.next(t)

	ballast := make([]byte, most)
	for i := 0; i < len(ballast); i += 4 << 10 {
		ballast[i] = 1 // so that it is memory, not a promise
	}
	r.until("the budget is spent", r.memory.Shedding.Load)
	shed := r.dial()
	shed.Send("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
	res, body := shed.Status(503)
	if res.Header.Get("Retry-After") != "1" || !res.Close || body != `{"error":"the proxy is short of memory"}`+"\n" {
		t.Errorf("answered %v %q, closes: %t", res.Header, body, res.Close)
	}
	shed.Closed()
	shed.Close()
	conn.Ask(get, 503)
	if own := r.dial().Ask(request("/actuator/health"), 200); own == "" {
		t.Error("health tells nothing")
	}
	g.open <- true
	if _, body := held.Status(200); body != echoOf("GET", "/held", "") {
		t.Errorf("what was under way is answered %q", body)
	}
	r.metrics(`memory_sheds_total=1 store_decisions_total=2`)
	runtime.KeepAlive(ballast)
	ballast = nil
	r.until("there is memory again", func() bool { return !r.memory.Shedding.Load() })
	r.dial().Ask(get, 200)
}

// The number of connections from one address is bounded, whatever other addresses do; a
// connection that closes makes room.
func TestConnectionsPerAddress(t *testing.T) {
	r := start(t, newTarget(t, echoes).url(), "MAX_CONNECTIONS_PER_IP", "3")
	var in []*testkit.Conn
	for range 3 {
		in = append(in, r.dialFrom("127.0.0.2"))
		in[len(in)-1].Ask(get, 200)
	}
	for range 2 {
		if b, err := r.dialFrom("127.0.0.2").In.ReadByte(); err == nil {
			t.Errorf("who is one too many reads %q", b)
		}
	}
	for i := range 5 {
		r.dialFrom(fmt.Sprintf("127.0.0.%d", 3+i)).Ask(get, 200)
	}
	for _, conn := range in {
		conn.Ask(get, 200)
	}
	r.metrics(`client_connections_refused_address_total=2 client_connections_refused_total=0`)
	in[0].Close()
	r.until("there is room", func() bool { return r.samples()["ratelimiter_client_connections"] == 7 })
	r.dialFrom("127.0.0.2").Ask(get, 200)
}

// One client cannot take all connections: what it leaves is for others, whatever else it tries. A
// trusted proxy, which carries many clients, may take all.
func TestConnectionsShareOfOneClient(t *testing.T) {
	t.Parallel() // housekeeping looks once a second
	const most, left = 40, 5
	r := start(t, newTarget(t, echoes).url(), "MAX_CONNECTIONS", strconv.Itoa(most), "TRUSTED_PROXIES", "127.0.0.9/32")
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
	if len(attack) != most-left {
		t.Errorf("one client has %d connections of %d, want %d", len(attack), most, most-left)
	}
	for i := range left - 1 {
		if n := len(take(fmt.Sprintf("127.0.0.%d", 3+i), 1)); n != 1 {
			t.Errorf("client %d finds no room", i+1)
		}
	}
	r.metrics(`client_connections_refused_share_total=%d client_connections_refused_total=0`, most+left)
	if n := r.log.Count("Connections were refused"); n != 1 {
		r.until("a warning", func() bool { return r.log.Count("Connections were refused") == 1 })
	}
	for _, conn := range attack {
		conn.Close()
	}
	r.until("they are gone", func() bool { return r.samples()["ratelimiter_client_connections"] == left-1 })
	if n := len(take("127.0.0.9", 2*most)); n != most-left+1 {
		t.Errorf("a trusted proxy has %d connections, want all %d that are left", n, most-left+1)
	}
}

// Clients that connect and leave, or are one too many, cost the others nothing.
func TestConnectFlood(t *testing.T) {
	r := start(t, newTarget(t, echoes).url(), "MAX_CONNECTIONS", "50")
	neighbour := r.dial()
	neighbour.Ask(get, 200)
	end := watchHeap(t, 16<<20)
	for i := range 2000 {
		conn := r.dial()
		if i%2 == 0 {
			conn.Reset()
		} else {
			conn.Close()
		}
		if i%100 == 0 {
			neighbour.Ask(get, 200)
		}
	}
	r.until("they are gone", func() bool { return r.samples()["ratelimiter_client_connections"] == 1 })
	end()
	neighbour.Ask(get, 200)
	r.dial().Ask(get, 200)
}
