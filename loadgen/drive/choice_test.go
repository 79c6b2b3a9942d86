package drive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/data/strict"
	"weir/loadgen/plan"
	"weir/loadgen/record"
)

func TestChooseLoops(t *testing.T) {
	for _, c := range []struct {
		asked       int
		cores       int
		rps         float64
		connections int
		want        int
	}{
		{0, 4, 1, 0, 1},
		{0, 4, loopRate, 0, 1},
		{0, 4, loopRate + 1, 0, 2},
		{0, 4, 1e7, 0, 4},
		{0, 4, 1e7, 1, 1},
		{3, 4, 1, 0, 3},
		{3, 4, 1, 2, 2},
	} {
		config := load("a", c.rps, 1)
		config.Concurrency = c.connections
		if got := chooseLoops(c.asked, c.cores, planOf(t, config)); got != c.want {
			t.Errorf("%+v: %d loops", c, got)
		}
	}
}

// The loops' shares add up to the connections allowed, and differ by one at
// most.
func TestSizes(t *testing.T) {
	for _, c := range []struct{ loops, connections int }{{1, 1}, {2, 3}, {3, 3}, {4, 10_001}} {
		config := load("a", 1000, 1)
		config.Concurrency = c.connections
		r := &Run{plan: planOf(t, config), loops: c.loops, poolMax: c.connections}
		sum, least, most := 0, c.connections, 0
		for i := range c.loops {
			size := r.size(i)
			sum, least, most = sum+size.Max, min(least, size.Max), max(most, size.Max)
			if size.Start != size.Max || !size.Grow {
				t.Errorf("%+v: loop %d starts with %d of %d connections", c, i, size.Start, size.Max)
			}
		}
		if sum != c.connections || most-least > 1 {
			t.Errorf("%+v: shares from %d to %d add up to %d", c, least, most, sum)
		}
	}
}

func TestSizeWithoutKeepAlive(t *testing.T) {
	config := load("a", 1000, 1)
	config.Options = map[string]any{"keepAlive": false}
	r := &Run{plan: planOf(t, config), loops: 1, poolMax: 100}
	if size := r.size(0); size.Start != 0 || size.Grow || size.Max != 100 {
		t.Errorf("%+v", size)
	}
}

// Connections are bounded by the descriptors of the process, of which one by TLS
// takes three.
func TestAllowedConnections(t *testing.T) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	for _, secure := range []bool{false, true} {
		most := int(min(lim.Cur, 1<<30)) - descriptorReserve
		if secure {
			most /= 3
		}
		ask := func(n int) (int, error) { return allowedConnections(&plan.Plan{Connections: n, Secure: secure}) }
		if n, err := ask(0); err != nil || n != min(connectionsMax, most) {
			t.Errorf("secure %v, chosen: %d, %v", secure, n, err)
		}
		for _, n := range []int{7, most} {
			if got, err := ask(n); err != nil || got != n {
				t.Errorf("secure %v, %d asked: %d, %v", secure, n, got, err)
			}
		}
		_, err := ask(most + 1)
		if e, ok := errors.AsType[strict.Fault](err); !ok || e.Path != "concurrency" ||
			!strings.Contains(e.Message,
				fmt.Sprintf("must be at most %d, because this process may open %d files (ulimit -Hn)", most, lim.Cur)) {
			t.Errorf("secure %v, beyond the bound: %v", secure, err)
		}
	}
}

func TestReasonOfDialError(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("dial: %w", os.NewSyscallError("connect", err)) }
	for _, c := range []struct {
		err  error
		want record.Reason
	}{
		{wrap(unix.ECONNREFUSED), record.ConnectRefused},
		{wrap(unix.ETIMEDOUT), record.ConnectTimeout},
		{context.DeadlineExceeded, record.ConnectTimeout},
		{os.ErrDeadlineExceeded, record.ConnectTimeout},
		{wrap(unix.EADDRNOTAVAIL), record.ConnectFailed},
		{wrap(unix.EMFILE), record.ConnectFailed},
		{wrap(unix.EHOSTUNREACH), record.ConnectFailed},
	} {
		if got := reasonOf(c.err); got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
	}
}

func TestBrief(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		want    string
	}{
		{0, "0s"}, {0.05, "50ms"}, {0.0123456, "12.3ms"}, {45, "45s"}, {45.26, "45.3s"}, {0.000085, "85µs"},
		{1.2349, "1.23s"},
	} {
		if got := brief(c.seconds); got != c.want {
			t.Errorf("%v s is written %s, want %s", c.seconds, got, c.want)
		}
	}
}

// The status says the rate of the last second only.
func TestCurrentRps(t *testing.T) {
	start := time.Unix(0, 0)
	c := &conductor{start: start}
	for i, step := range []struct {
		sent uint64
		want float64
	}{
		{25, 100}, {50, 100}, {75, 100}, {100, 100}, {100, 75}, // 25 of the 100 by 0.25 s
		{100, 50}, {100, 25}, {100, 0}, {200, 100},
	} {
		c.counts.Started = step.sent
		now := start.Add(time.Duration(i+1) * tick)
		got := c.currentRps(now)
		if got != step.want {
			t.Errorf("at %v: %v/s, want %v", now.Sub(start), got, step.want)
		}
	}
}
