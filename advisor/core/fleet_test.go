package core

import (
	"fmt"
	"math"
	"testing"
	"time"

	"weir/advisor/policy"
)

// A report is a snapshot of one proxy, and the expected result.
type report struct {
	proxy    string
	at       int // seconds after monday
	interval int
	rate     float64
	sum      float64 // arriving, of all proxies; 0: the round continues
	over     int     // the interval of the sum
}

func (r report) snapshot() *Snapshot {
	s := snapAt(monday.Add(time.Duration(r.at) * time.Second))
	s.Instance, s.Interval = r.proxy, time.Duration(r.interval)*time.Second
	s.Observed, s.Forwarded, s.Rejected = r.rate, r.rate/2, 0.5
	return answered(s)
}

func TestFleet(t *testing.T) {
	for _, c := range []struct {
		name    string
		reports []report
	}{
		{"one proxy ends a round with each snapshot", []report{
			{"a", 30, 30, 10, 10, 30}, {"a", 60, 30, 20, 20, 30}, {"a", 61, 1, 7, 7, 1}, {"a", 600, 30, 5, 5, 30},
			{"a", 4200, 3600, 5, 5, 3600},
		}},
		{"when the one that ended rounds is gone, another does", []report{
			{"a", 30, 30, 10, 10, 30}, {"b", 40, 30, 100, 0, 0}, {"c", 45, 30, 5, 0, 0}, {"b", 70, 30, 200, 155, 60},
			{"c", 75, 30, 6, 0, 0}, {"b", 100, 30, 100, 106, 30},
		}},
		{"two take turns", []report{
			{"a", 30, 30, 10, 10, 30}, {"b", 40, 30, 100, 0, 0}, {"a", 60, 30, 20, 120, 30},
			{"b", 70, 30, 200, 0, 0}, {"a", 90, 30, 30, 230, 30}, {"b", 100, 30, 300, 0, 0}, {"a", 120, 30, 40, 340, 30},
		}},
		{"one that goes silent counts as before for three intervals, then not", []report{
			{"a", 30, 30, 10, 10, 30}, {"b", 40, 30, 100, 0, 0}, {"a", 60, 30, 10, 110, 30}, // from now on b is silent
			{"a", 90, 30, 11, 111, 30}, {"a", 120, 30, 12, 112, 30},
			{"a", 150, 30, 14, 14, 30}, {"a", 180, 30, 15, 15, 30},
		}},
		{"one that comes back counts again", []report{
			{"a", 30, 30, 10, 10, 30}, {"a", 60, 30, 10, 10, 30}, {"b", 65, 30, 5, 0, 0}, {"a", 90, 30, 10, 15, 30},
		}},
		{"different intervals", []report{
			{"slow", 60, 60, 100, 100, 60}, {"fast", 70, 10, 1, 0, 0}, {"fast", 80, 10, 2, 101.5, 20},
			{"fast", 90, 10, 3, 103, 10},
			{"fast", 110, 10, 6, 106, 10}, {"slow", 120, 60, 200, 0, 0}, {"fast", 130, 10, 7, 207, 10},
		}},
		{"one whose clock is behind counts all the same", []report{
			{"a", 3000, 30, 10, 10, 30}, {"b", 2000, 30, 100, 0, 0}, {"a", 3030, 30, 10, 110, 30},
			{"b", 2030, 30, 100, 0, 0}, {"a", 3060, 30, 20, 120, 30}, {"b", 2060, 30, 100, 0, 0},
		}},
		{"one whose clock is ahead silences nobody", []report{
			{"a", 30, 30, 100, 100, 30}, {"b", 35, 30, 100, 0, 0}, {"c", 330, 30, 100, 0, 0}, {"a", 60, 30, 100, 300, 30},
			{"b", 65, 30, 100, 0, 0}, {"c", 360, 30, 100, 0, 0},
			{"a", 90, 30, 100, 300, 30}, {"b", 95, 30, 100, 0, 0}, {"c", 390, 30, 100, 0, 0}, {"a", 120, 30, 100, 300, 30},
			{"b", 125, 30, 100, 0, 0},
		}},
		{"of the same times one ends the round", []report{
			{"a", 30, 30, 10, 10, 30}, {"b", 30, 30, 100, 0, 0}, {"a", 60, 30, 20, 120, 30}, {"b", 60, 30, 200, 0, 0},
			{"a", 90, 30, 30, 230, 30}, {"b", 90, 30, 300, 0, 0},
		}},
		{"one that is started anew under another name counts once", []report{
			{"a", 30, 30, 10, 10, 30}, {"b", 40, 30, 100, 0, 0}, {"a", 60, 30, 10, 110, 30}, {"b2", 75, 30, 100, 0, 0},
			{"a", 90, 30, 10, 110, 30},
			{"b2", 105, 30, 100, 0, 0}, {"a", 120, 30, 10, 110, 30}, {"b2", 135, 30, 100, 0, 0}, {"a", 150, 30, 10, 110, 30},
		}},
		{"two that are late and one that is new are two", []report{
			{"a", 30, 30, 10, 10, 30}, {"b", 31, 30, 100, 0, 0}, {"c", 32, 30, 1000, 0, 0}, {"a", 60, 30, 10, 1110, 30},
			{"d", 65, 30, 200, 0, 0}, {"a", 90, 30, 10, 1210, 30},
			{"d", 95, 30, 200, 0, 0}, {"a", 120, 30, 10, 1210, 30},
		}},
		{"one that is left over ends rounds by itself", []report{
			{"a", 30, 30, 10, 10, 30}, {"b", 31, 10, 5, 0, 0}, {"a", 40, 10, 20, 25, 10}, {"a", 50, 10, 40, 45, 10},
			{"a", 70, 20, 70, 75, 20}, {"a", 80, 10, 1, 6, 10}, {"a", 200, 120, 1, 1, 120}, {"a", 210, 10, 1, 1, 10},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f fleet
			for i, r := range c.reports {
				sum, ended, err := f.add(r.snapshot())
				if err != nil {
					t.Fatal(err)
				}
				if ended != (r.sum > 0) || ended &&
					(math.Abs(sum.Observed-r.sum) > 1e-9 || sum.Interval != time.Duration(r.over)*time.Second) {
					t.Fatalf("report %d (%+v): ended %v with %g over %s", i, r, ended, sum.Observed, sum.Interval)
				}
				if ended && (math.Abs(sum.Forwarded-r.sum/2) > 1e-9 || math.Abs(sum.RejectedShare-0.5) > 1e-9 ||
					sum.P95.Round(time.Microsecond) != 20*time.Millisecond) {
					t.Errorf("report %d: the sum is %+v", i, sum)
				}
			}
		})
	}
}

// Latencies and errors of several proxies are weighted by their requests.
func TestFleetWeights(t *testing.T) {
	var f fleet
	a, b := snapAt(monday), snapAt(monday.Add(time.Second))
	a.Instance, a.Forwarded, a.P95, a.Errors = "a", 300, 0.1, 0
	b.Instance, b.Forwarded, b.P95, b.Errors = "b", 100, 0.5, 0.2
	_, _, _ = f.add(answered(a))
	_, _, _ = f.add(answered(b))
	a.At = a.At.Add(30 * time.Second)
	sum, ended, _ := f.add(a)
	if !ended || sum.P95.Round(time.Millisecond) != 200*time.Millisecond || math.Abs(sum.Errors-0.05) > 1e-9 {
		t.Errorf("ended %v, the sum is %+v", ended, sum)
	}
	quiet := snapAt(monday.Add(2 * time.Hour))
	quiet.Instance, quiet.Observed, quiet.Forwarded, quiet.P95, quiet.Ended = "c", 0, 0, 0, 0
	_, _, _ = f.add(quiet) // the proxy that ended the last round might return
	quiet.At = quiet.At.Add(30 * time.Second)
	if sum, ended, _ := f.add(quiet); !ended || sum.Observed != 0 || sum.P95 != 0 || sum.Errors != 0 {
		t.Errorf("nothing at all is %+v", sum)
	}
}

// A long interval that was only reported does not delay rounds for long, and a proxy with a
// proven one counts all the time.
func TestFleetIntervals(t *testing.T) {
	var f fleet
	add := func(name string, at, interval int, rate float64) (sum float64, ended bool) {
		total, ended, err := f.add(report{name, at, interval, rate, 0, 0}.snapshot())
		if err != nil {
			t.Fatal(err)
		}
		return total.Observed, ended
	}
	rounds := 0
	for at := 30; at <= 3*86400; at += 30 {
		if at == 3600 {
			add("x", at-1, 86400, 1)
		}
		sum, ended := add("a", at, 30, 10)
		if ended {
			rounds++
		}
		if at > 2*3600 && (!ended || sum != 10) {
			t.Fatalf("at %d s: ended %v with %g", at, ended, sum)
		}
	}
	if rounds < 8600 {
		t.Errorf("%d rounds in three days", rounds)
	}
	f = fleet{}
	for at := 10; at <= 86400; at += 10 {
		if at%3600 == 0 {
			add("slow", at, 3600, 100)
		}
		if sum, ended := add("fast", at, 10, 1); at > 7200 && ended && math.Abs(sum-101) > 1e-6 {
			t.Fatalf("at %d s the sum is %g", at, sum)
		}
	}
}

// The number of proxies is bounded; a silent one makes room for a new one.
func TestFleetBound(t *testing.T) {
	var f fleet
	add := func(name string, at time.Time) error {
		s := snapAt(at)
		s.Instance, s.Interval = name, max(s.Interval, at.Sub(f.Newest))
		if f.Newest.IsZero() {
			s.Interval = 30 * time.Second
		}
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

// fleetOf lets proxies a and b report every 30 s for 5 minutes. It is a that ends rounds,
// and b is the next to report.
func fleetOf(t *testing.T, change func(*Snapshot)) (c *Core,
	report func(name string, after time.Duration, change func(*Snapshot)) Response) {
	t.Helper()
	c = New(Settings{})
	report = func(name string, after time.Duration, change func(*Snapshot)) Response {
		s := snapAt(monday.Add(after))
		s.Instance = name
		if change != nil {
			change(s)
		}
		r := c.HandleSnapshot(s)
		if r.Result != Learned {
			t.Fatalf("%s at %v: %v %v", name, after, r.Result, r.Err)
		}
		return r
	}
	for at := 30 * time.Second; at <= 5*time.Minute; at += 30 * time.Second {
		report("a", at, change)
		if at < 5*time.Minute {
			report("b", at+time.Second, change)
		}
	}
	return c, report
}

// A recommendation for another limit than the one in force is not used: the limit has been
// changed since.
func TestChangedSinceTheRound(t *testing.T) {
	limit := func(l policy.Limit) func(*Snapshot) { return func(s *Snapshot) { s.Limit = l } }
	for _, l := range []policy.Limit{
		{Algorithm: policy.Fixed, Limit: 50, Window: 1}, {Algorithm: policy.Fixed, Limit: 500, Window: 1},
		{Algorithm: policy.Token, Capacity: 10, FillRate: 200}, {Algorithm: policy.Off},
	} {
		_, report := fleetOf(t, nil)
		if r := report("b", 5*time.Minute+time.Second, limit(l)); r.Limit != l {
			t.Errorf("in force is %+v, and before the next round it is answered %+v", l, r.Limit)
		}
	}
	_, report := fleetOf(t, limit(policy.Limit{Algorithm: policy.Off}))
	on := policy.Limit{Algorithm: policy.Fixed, Limit: 50, Window: 1}
	if r := report("b", 5*time.Minute+time.Second, limit(on)); r.Limit != on {
		t.Errorf("in force is %+v, others are off, and it is answered %+v", on, r.Limit)
	}
}

// While the store is unavailable each proxy enforces a whole limit. Afterwards they share
// one, which is not the sum of those.
func TestStoreIsBack(t *testing.T) {
	_, report := fleetOf(t, func(s *Snapshot) { s.OwnStore = true })
	if r := report("b", 5*time.Minute+time.Second, nil); r.Limit.Limit != 200 {
		t.Errorf("of a shared limit of 200/s it is answered %+v", r.Limit)
	}
}

// A proxy that has reported every 2 s reports every 30 s again when its gate is idle.
// Until then neither a new proxy takes its place nor a wrong clock the time.
func TestAfterPressure(t *testing.T) {
	pressed := func() (*Core, func(string, time.Duration, time.Duration) Response) {
		c := New(Settings{})
		report := func(name string, at, every time.Duration) Response {
			s := snapAt(monday.Add(at))
			s.Instance, s.Interval = name, every
			return c.HandleSnapshot(answered(s))
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
