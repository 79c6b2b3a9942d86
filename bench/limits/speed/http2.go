package speed

import (
	"fmt"
	"path/filepath"
	"strings"

	"weir/bench/lab/rig"
	"weir/internal/test/freeport"
)

// http2Streams is how many requests are in progress on each connection of HTTP/2.
const http2Streams = 8

// http2Parts compare HTTP/2 in all places where the proxy has it.
func http2Parts() []func(l *lab) {
	return []func(l *lab){fromHTTP2, refusedByHTTP2, toHTTP2, grpc(8), grpc(1)}
}

// byHTTP2 has sides loaded by HTTP/2 without TLS.
func byHTTP2(sides ...side) []side {
	for i := range sides {
		sides[i].streams = http2Streams
	}
	return sides
}

// acceptsHTTP2 returns a peer that accepts HTTP/2 without TLS.
func acceptsHTTP2(p rig.Peer) rig.Peer {
	p.Config = strings.NewReplacer("listen %[2]s", "listen %[2]s http2", "bind %[2]s", "bind %[2]s proto h2").
		Replace(p.Config)
	return p
}

// fromHTTP2 compares the cost of requests by HTTP/2 that are forwarded by HTTP/1.1.
func fromHTTP2(l *lab) {
	sides := []side{limiter("nginx limit_req", acceptsHTTP2(rig.Nginx(nginxLimiting)), 1)}
	if rig.RequireInstalled("haproxy") == nil {
		sides = append(sides, limiter("HAProxy stick-table", acceptsHTTP2(rig.HAProxy(haproxyLimiting)), 1))
	}
	comparison{heading: fmt.Sprintf("HTTP/2 without TLS, forwarded by HTTP/1.1, %d connections with %d streams each, "+
		"nginx as the target", connections/http2Streams, http2Streams),
		sides: byHTTP2(append(sides, ours("HTTP2=all"))...), show: besidePeers}.play(l)
}

// refusedByHTTP2 compares the cost of refusals by HTTP/1.1 and HTTP/2.
func refusedByHTTP2(l *lab) {
	const limit = "RATE_LIMIT_LIMIT=1"
	comparison{heading: "Refusing (429), by HTTP/1.1 and by HTTP/2", refused: true, sides: append(
		[]side{weir("HTTP/1.1", limit)}, byHTTP2(weir("HTTP/2", limit, "HTTP2=all"))...), show: besidePeers}.play(l)
}

// toHTTP2 compares the cost of forwarding by HTTP/1.1 and by HTTP/2. The target speaks both.
func toHTTP2(l *lab) {
	l.ownTarget("EVENT_LOOPS=1")
	comparison{heading: "Forwarding by HTTP/1.1 and by HTTP/2 (TARGET_PROTOCOL=h2c), our target",
		sides: append(limiters(1), ours(), weir("weir proxy, h2c", "TARGET_PROTOCOL=h2c")), show: besidePeers}.play(l)
}

// nginxGRPC is a proxy of gRPC.
const nginxGRPC = nginxHead + `
  upstream target { server %[4]s; keepalive 128; keepalive_requests 1000000000; }
  server { listen %[2]s http2 reuseport; location / { grpc_pass grpc://target; } }
}`

// grpc returns a comparison of the cost of unary calls of gRPC, 16 at the same time on each of so many connections; on
// one connection one at a time. grpc-go is client and target.
func grpc(n int) func(l *lab) {
	return func(l *lab) {
		program, addr := filepath.Join(l.Dir, "grpcload"), rig.Must(freeport.Addr())
		rig.Check(rig.BuildPeer(l.Ctx, program, "bench/limits/speed/grpcload", "."))
		l.served, l.address = l.StartForeign("grpc-go", addr, program, "serve", addr), addr
		sides := []side{direct("direct"), limiter("nginx grpc_pass", rig.Nginx(nginxGRPC), 1),
			ours("HTTP2=all", "TARGET_PROTOCOL=h2c")}
		for i := range sides {
			sides[i].program, sides[i].path = program, "/bench.Echo/Unary"
		}
		c := comparison{heading: fmt.Sprintf("Unary calls of gRPC, 16 at a time on each of %d connections", n),
			connections: n, sides: sides, show: besidePeers}
		if n == 1 {
			c.heading, c.show = "Latency of unary calls of gRPC, one at a time, p50", added
		}
		c.play(l)
	}
}
