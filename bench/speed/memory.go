package speed

import (
	"fmt"
	"io"
	"net"

	"weir/bench/rig"
)

// idleConnections is the number of idle clients while memory is measured.
const idleConnections = 2000

func (l *lab) memory() {
	l.heading("Memory of the proxy")
	l.ownTarget()
	c := &l.open(ours())[0]
	resident := func() float64 { return float64(rig.Must(rig.RSS(c.Process.Pid()))) }
	atStart := resident()
	c.Sample(l.Ctx, connections, l.span) // allocates buffers
	before := resident()
	buf := make([]byte, 4096)
	for range idleConnections {
		conn := rig.Must(net.Dial("tcp", c.addr))
		defer conn.Close()
		rig.Must(io.WriteString(conn, "GET /api/test HTTP/1.1\r\nHost: x\r\n\r\n"))
		rig.Must(io.ReadAtLeast(conn, buf, 1))
	}
	l.table("", "value")
	l.row("resident at start", fmt.Sprintf("%.1f MB", atStart/1e6))
	l.row(fmt.Sprintf("per idle client connection (%d of them, each after one request)", idleConnections),
		fmt.Sprintf("%.1f KB", (resident()-before)/idleConnections/1e3))
}

func (l *lab) loadgen() {
	l.heading("Load generator: lag (start − due) against the target, constant rate")
	url := "http://" + l.ownTarget("EVENT_LOOPS=1") + "/api/test"
	l.table("rate /s", "sent", "verdict", "lag p50 µs", "p99 µs", "max µs", "latency p50 µs", "p99 µs")
	for _, rate := range []int{1000, 10_000, 50_000} {
		r := l.Load(rig.Load{URL: url, Rate: rate, For: 2 * l.span})[0]
		us := func(s float64) string { return fmt.Sprintf("%.0f", 1e6*s) }
		l.row(fmt.Sprint(rate), fmt.Sprint(r.Sent), string(r.Verdict), us(r.Lag.P50), us(r.Lag.P99), us(r.Lag.Max), us(r.LatencySuccess.P50), us(r.LatencySuccess.P99))
	}
}
