package serve

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// A report is a snapshot of one proxy at a second, and what the fleet makes of it.
type report struct {
	proxy    string
	at       int // seconds after monday
	interval int
	rate     float64
	sum      float64 // arriving of all; 0: the round goes on
	over     int     // the interval of the sum
}

func (r report) snapshot() *snapshot {
	s := snapAt(monday.Add(time.Duration(r.at) * time.Second))
	s.instance, s.interval = r.proxy, time.Duration(r.interval)*time.Second
	s.observed, s.forwarded, s.rejected = r.rate, r.rate/2, 0.5
	return s
}

func TestFleet(t *testing.T) {
	for _, c := range []struct {
		name    string
		reports []report
	}{
		{"one proxy ends a round with each snapshot", []report{
			{"a", 30, 30, 10, 10, 30}, {"a", 60, 30, 20, 20, 30}, {"a", 61, 1, 7, 7, 1}, {"a", 600, 30, 5, 5, 30}, {"a", 4200, 3600, 5, 5, 3600},
		}},
		{"two take turns", []report{
			{"a", 30, 30, 10, 10, 30}, {"b", 40, 30, 100, 0, 0}, {"a", 60, 30, 20, 120, 30},
			{"b", 70, 30, 200, 0, 0}, {"a", 90, 30, 30, 230, 30}, {"b", 100, 30, 300, 0, 0}, {"a", 120, 30, 40, 340, 30},
		}},
		{"one that goes silent counts as before for three intervals, then not", []report{
			{"a", 30, 30, 10, 10, 30}, {"b", 40, 30, 100, 0, 0}, {"a", 60, 30, 10, 110, 30}, // b is silent from now on
			{"a", 90, 30, 11, 0, 0}, {"a", 120, 30, 12, 111.5, 60},
			{"a", 150, 30, 14, 14, 30}, {"a", 180, 30, 15, 15, 30},
		}},
		{"one that comes back counts again", []report{
			{"a", 30, 30, 10, 10, 30}, {"a", 60, 30, 10, 10, 30}, {"b", 65, 30, 5, 0, 0}, {"a", 90, 30, 10, 15, 30},
		}},
		{"different intervals", []report{
			{"slow", 60, 60, 100, 100, 60}, {"fast", 70, 10, 1, 0, 0}, {"fast", 80, 10, 2, 0, 0}, {"fast", 90, 10, 3, 0, 0},
			{"fast", 110, 10, 6, 0, 0}, {"slow", 120, 60, 200, 203, 60},
		}},
		{"one whose clock is far behind does not count", []report{
			{"a", 3000, 30, 10, 10, 30}, {"b", 2000, 30, 100, 0, 0}, {"a", 3030, 30, 10, 10, 30}, {"b", 2030, 30, 100, 0, 0}, {"a", 3060, 30, 10, 10, 30},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f fleet
			for i, r := range c.reports {
				sum, ended, err := f.add(r.snapshot())
				if err != nil {
					t.Fatal(err)
				}
				if ended != (r.sum > 0) || ended && (math.Abs(sum.Observed-r.sum) > 1e-9 || sum.Interval != time.Duration(r.over)*time.Second) {
					t.Fatalf("report %d (%+v): ended %v with %g over %s", i, r, ended, sum.Observed, sum.Interval)
				}
				if ended && (math.Abs(sum.Forwarded-r.sum/2) > 1e-9 || math.Abs(sum.RejectedShare-0.5) > 1e-9 || sum.P95.Round(time.Microsecond) != 20*time.Millisecond) {
					t.Errorf("report %d: the sum is %+v", i, sum)
				}
			}
		})
	}
}

// The latency of several counts by their requests, and so do errors.
func TestFleetWeights(t *testing.T) {
	var f fleet
	a, b := snapAt(monday), snapAt(monday.Add(time.Second))
	a.instance, a.forwarded, a.p95, a.errors = "a", 300, 0.1, 0
	b.instance, b.forwarded, b.p95, b.errors = "b", 100, 0.5, 0.2
	_, _, _ = f.add(a)
	_, _, _ = f.add(b)
	a.at = a.at.Add(30 * time.Second)
	sum, ended, _ := f.add(a)
	if !ended || sum.P95.Round(time.Millisecond) != 200*time.Millisecond || math.Abs(sum.Errors-0.05) > 1e-9 {
		t.Errorf("ended %v, the sum is %+v", ended, sum)
	}
	quiet := snapAt(monday.Add(time.Hour))
	quiet.instance, quiet.observed, quiet.forwarded, quiet.p95 = "c", 0, 0, 0
	if sum, ended, _ := f.add(quiet); !ended || sum.Observed != 0 || sum.P95 != 0 || sum.Errors != 0 {
		t.Errorf("nothing at all is %+v", sum)
	}
}

// There is a bound on proxies; one that is silent makes room.
func TestFleetBound(t *testing.T) {
	var f fleet
	add := func(name string, at time.Time) error {
		s := snapAt(at)
		s.instance = name
		_, _, err := f.add(s)
		return err
	}
	for i := range membersMax {
		if err := add(fmt.Sprintf("p%d", i), monday); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("one more", monday); err == nil {
		t.Error("there is no bound")
	}
	if err := add("p7", monday.Add(30*time.Second)); err != nil {
		t.Error(err)
	}
	if err := add("p7", monday.Add(10*time.Minute)); err != nil {
		t.Error(err)
	}
	if err := add("one more", monday.Add(10*time.Minute)); err != nil || len(f.Members) != membersMax {
		t.Errorf("%d proxies, %v", len(f.Members), err)
	}
	if f.last("p7").IsZero() || f.last("one more").IsZero() {
		t.Error("the wrong one made room")
	}
}
