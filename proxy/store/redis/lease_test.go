package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

const leaseName = "ratelimiter:adaptive-leader"

// long is a lease that does not end within a test.
const long = time.Hour

func TestLease(t *testing.T) {
	t.Parallel()
	s, c, _ := newWorld(t)
	take := func(owner string) string {
		held, err := c.Lease(leaseName, owner, long)
		return map[bool]string{true: "held", false: "not held"}[held] + map[bool]string{false: " with an error"}[err == nil]
	}
	lasts := func() string { // all of the time, or a little less
		var left int64
		fmt.Sscan(s.Do("pttl", leaseName), &left)
		if left > (long-testkit.Timeout).Milliseconds() && left <= long.Milliseconds() {
			return " for long"
		}
		return fmt.Sprintf(" for %d ms", left)
	}
	for i, step := range []struct {
		do   func() string
		want string
	}{
		{func() string { return take("a") }, "held"},
		{func() string { return take("b") }, "not held"},
		{func() string { return take("a") }, "held"}, // renewed
		{func() string { s.Do("expire", leaseName, "600"); return take("b") }, "not held"},
		{func() string { return take("a") + lasts() }, "held for long"}, // as at first
		{func() string { return errorText(c.Release(leaseName, "b")) + take("b") }, "not held"},
		{func() string { return errorText(c.Release(leaseName, "a")) + take("b") }, "held"},
		{func() string { s.Do("del", leaseName); return take("a") }, "held"}, // it ended by itself
		{func() string { s.Do("set", leaseName, "somebody"); return take("a") }, "not held"},
		{lasts, " for long"}, // and not for ever
		{func() string { s.Do("del", leaseName); s.Do("lpush", leaseName, "x"); return take("a") }, "not held with an error"},
		// it is the key's fault
		{func() string { return map[bool]string{true: "there", false: "away"}[c.Connected()] }, "there"},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestLeaseWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s, c, _ := newWorld(t)
	s.Kill()
	testkit.Eventually(t, "the client notices", func() bool { return !c.Connected() })
	if held, err := c.Lease(leaseName, "a", long); held || err == nil ||
		!strings.Contains(err.Error(), "redis is unavailable") {
		t.Errorf("held %t, %v", held, err)
	}
	if err := c.Release(leaseName, "a"); err == nil {
		t.Error("released while redis is away")
	}
}
