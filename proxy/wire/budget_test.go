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
