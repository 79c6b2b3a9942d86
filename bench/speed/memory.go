package speed

import (
	"fmt"
	"io"
	"net"

	"weir/bench/rig"
)

// idleConnections is the number of idle clients while memory is measured.
const idleConnections = 2000

// memory measures the memory of idle connections.
func (l *lab) memory() error {
	l.heading("Memory of the proxy")
	if _, err := l.ownTarget(); err != nil {
		return err
	}
	all, err := l.open(ours())
	if err != nil {
		return err
	}
	pid := all[0].Process.Pid()
	atStart, err := rig.RSS(pid)
	if err != nil {
		return err
	}
	before, after, err := l.idle(&all[0], pid)
	if err != nil {
		return err
	}
	l.table("", "value")
	l.row("resident at start", fmt.Sprintf("%.1f MB", float64(atStart)/1e6))
	l.row(fmt.Sprintf("per idle client connection (%d of them, each after one request)", idleConnections),
		fmt.Sprintf("%.1f KB", float64(after-before)/idleConnections/1e3))
	return nil
}

// idle returns the resident memory before and while many clients are idle.
func (l *lab) idle(c *contestant, pid int) (before, after int64, err error) {
	if _, err := c.Sample(l.ctx, connections, l.span); err != nil { // allocates buffers
		return 0, 0, err
	}
	if before, err = rig.RSS(pid); err != nil {
		return 0, 0, err
	}
	request := []byte("GET /api/test HTTP/1.1\r\nHost: x\r\n\r\n")
	buf := make([]byte, 4096)
	for range idleConnections {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			return 0, 0, err
		}
		defer conn.Close()
		if _, err = conn.Write(request); err == nil {
			_, err = io.ReadAtLeast(conn, buf, 1)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	after, err = rig.RSS(pid)
	return before, after, err
}

// loadgen measures the lag of our load generator.
func (l *lab) loadgen() error {
	l.heading("Load generator: lag (start − due) against the target, constant rate")
	addr, err := l.ownTarget("EVENT_LOOPS=1")
	if err != nil {
		return err
	}
	url := "http://" + addr + "/api/test"
	l.table("rate /s", "sent", "verdict", "lag p50 µs", "p99 µs", "max µs", "latency p50 µs", "p99 µs")
	for _, rate := range []int{1000, 10_000, 50_000} {
		r, err := rig.Load{URL: url, Rate: rate, For: 2 * l.span}.Run(l.ctx)
		if err != nil {
			return err
		}
		us := func(s float64) string { return fmt.Sprintf("%.0f", 1e6*s) }
		l.row(fmt.Sprint(rate), fmt.Sprint(r.Sent), string(r.Verdict), us(r.Lag.P50), us(r.Lag.P99), us(r.Lag.Max), us(r.LatencySuccess.P50), us(r.LatencySuccess.P99))
	}
	return nil
}
