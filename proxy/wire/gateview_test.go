package wire

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"weir/proxy/gate"
	"weir/proxy/roster"
)

// crowd is a front with n targets, which never ran, on two loops.
func crowd(n int) *Front {
	f := &Front{Targets: roster.New(roster.Config{Loops: loops(nil)}), cfg: Config{Gate: Gating{Mode: gate.On, Wait: 50 * time.Millisecond, Min: 2}}}
	var specs []*roster.Target
	for i := range n {
		specs = append(specs, &roster.Target{URL: fmt.Sprintf("http://name%d:80", i/2), Addr: fmt.Sprintf("10.0.%d.%d:80", i/256, i%256)})
	}
	f.Targets.Set(specs)
	for range 2 {
		s := &side{front: f, connsPerTarget: 100}
		seen := make(map[*roster.Target]*target)
		for _, spec := range specs {
			seen[spec] = &target{side: s, spec: spec}
		}
		s.seen.Store(&seen)
		f.sides = append(f.sides, s)
	}
	return f
}

// Of many targets those that shed most are told first; one is found by its number,
// its address or its URL, which several may have.
func TestGatesOfManyTargets(t *testing.T) {
	f := crowd(10_000)
	last := f.Targets.All()[9_999]
	for at := range f.sides.of(last) {
		at.shed[classDefault].Add(3)
		at.short.Add(5)
		at.waiting.Add(1)
		at.view.show(gate.Look{Limit: 4, Baseline: 9 * time.Millisecond, Median: 48 * time.Millisecond, Cuts: [gate.Reasons]uint64{1, 0},
			Last: []gate.Cut{{At: time.Unix(7, 0), From: 8, To: 4}}})
	}
	r := f.Gates("", 3)
	if r.Mode != "on" || r.Wait != .05 || r.Count != 10_000 || len(r.Targets) != 3 || r.Targets[1].Number != 1 || r.Targets[1].Limit != 0 {
		t.Errorf("all: %+v", r)
	}
	st := r.Targets[0]
	if st.Number != 10_000 || st.Limit != 8 || st.LimitMin != 4 || st.InFlight != 10 || st.Waiting != 2 || st.Shed != 6 || st.Baseline != .009 || st.Median != .048 ||
		st.Cuts["latency"] != 2 || st.Cuts["errors"] != 0 || len(st.Last) != 2 || st.Last[0].To != 4 {
		t.Errorf("%+v", st)
	}
	for _, asked := range []string{last.Addr, strconv.Itoa(f.Targets.Number(last))} {
		if r := f.Gates(asked, 100); r.Count != 1 || len(r.Targets) != 1 || r.Targets[0].Address != last.Addr {
			t.Errorf("%s: %+v", asked, r)
		}
	}
	if r := f.Gates(last.URL, 1); r.Count != 2 || len(r.Targets) != 1 || r.Targets[0].Address != last.Addr {
		t.Errorf("%s: %+v", last.URL, r)
	}
	if r := f.Gates("http://nobody:1", 100); r.Count != 0 || r.Targets == nil {
		t.Errorf("of no target: %+v", r)
	}
}

// What judgements tell costs memory only when a limit falls.
func TestGateViewDoesNotAllocate(t *testing.T) {
	var v gateView
	l := gate.Look{Limit: 4, Cuts: [gate.Reasons]uint64{1, 0}, Last: make([]gate.Cut, 1)}
	v.show(l)
	if n := testing.AllocsPerRun(1000, func() { v.show(l) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
