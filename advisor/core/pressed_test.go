package core

import (
	"testing"
	"time"
)

// A proxy that has reported every 2 s reports every 30 s again when its gate is idle.
// Until then neither a new proxy takes its place nor a wrong clock the time.
func TestAfterPressure(t *testing.T) {
	pressed := func() (*Core, func(string, time.Duration, time.Duration) Reply) {
		c := New(Tuning{})
		report := func(name string, at, every time.Duration) Reply {
			s := snapAt(monday.Add(at))
			s.Instance, s.Interval = name, every
			return c.Take(answered(s))
		}
		for at := 30 * time.Second; at <= 5*time.Minute; at += 30 * time.Second {
			report("a", at, 30*time.Second)
			report("b", at+time.Second, 30*time.Second)
		}
		for at := 303 * time.Second; at < 310*time.Second; at += 2 * time.Second {
			report("b", at, 2*time.Second)
		}
		return c, report
	}
	c, report := pressed()
	report("c", 320*time.Second, 10*time.Second)
	report("a", 330*time.Second, 30*time.Second)
	if n := len(c.now.Fleet.replaced()); n != 0 {
		t.Errorf("%d proxies are taken to be replaced by one that was added", n)
	}
	c, report = pressed()
	c.now.Fleet.Members = c.now.Fleet.Members[1:] // only b is of the current time
	for at := 2*time.Hour + 310*time.Second; at < 2*time.Hour+330*time.Second; at += 2 * time.Second {
		if r := report("c", at, 2*time.Second); r.Result != Ahead {
			t.Fatalf("a wrong clock is believed while the other proxy's interval lasts: %v", r.Result)
		}
	}
}
