package gates

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"testing"
	"time"

	"weir/proxy/gate"
	"weir/proxy/roster"
	"weir/proxy/upstream"
)

// fake is loops of which each shows the same gates.
type fake map[*roster.Target]*View

func (f fake) gates(t *roster.Target) iter.Seq[*View] {
	return slices.Values([]*View{f[t], f[t]})
}

func (f fake) SetTargets(list []*roster.Target) {
	for _, t := range list {
		f[t] = new(View)
	}
}

func (f fake) Refresh() {}

func (f fake) Views(*roster.Target) iter.Seq[*roster.View] { return func(func(*roster.View) bool) {} }

func (f fake) Connected(*roster.Target) {}

func (f fake) Checked(*roster.Target, upstream.Verdict, time.Duration) {}

// crowd is the gates of n targets on two loops.
func crowd(n int) (*Gates, *roster.List, fake) {
	var specs []*roster.Target
	for i := range n {
		specs = append(specs, &roster.Target{URL: fmt.Sprintf("http://name%d:80", i/2), Addr: fmt.Sprintf("10.0.%d.%d:80", i/256, i%256)})
	}
	loops := make(fake)
	list := roster.New(roster.Config{Loops: loops})
	list.Set(specs)
	return New(Config{Settings: Settings{Mode: gate.On, Wait: 50 * time.Millisecond, Min: 2}, Targets: list, Views: loops.gates, Classes: new(Classes)}), list, loops
}

// Of many targets those that shed most are told first; one is found by its number,
// its address or its URL, which several may have.
func TestGatesOfManyTargets(t *testing.T) {
	g, list, loops := crowd(10_000)
	last := list.All()[9_999]
	v := loops[last]
	v.Shed[ClassDefault].Add(3)
	v.InFlight.Add(5)
	v.Waiting.Add(1)
	v.Show(gate.Look{Limit: 4, Baseline: 9 * time.Millisecond, Median: 48 * time.Millisecond, Cuts: [gate.Reasons]uint64{1, 0},
		Last: []gate.Cut{{At: time.Unix(7, 0), From: 8, To: 4}}})
	r := g.Report("", 3)
	if r.Mode != "on" || r.Wait != .05 || r.Count != 10_000 || len(r.Targets) != 3 || r.Targets[1].Number != 1 || r.Targets[1].Limit != 0 {
		t.Errorf("all: %+v", r)
	}
	st := r.Targets[0]
	if st.Number != 10_000 || st.Limit != 8 || st.LimitMin != 4 || st.InFlight != 10 || st.Waiting != 2 || st.Shed != 6 || st.Baseline != .009 || st.Median != .048 ||
		st.Cuts["latency"] != 2 || st.Cuts["errors"] != 0 || len(st.Last) != 2 || st.Last[0].To != 4 {
		t.Errorf("%+v", st)
	}
	for _, asked := range []string{last.Addr, strconv.Itoa(list.Number(last))} {
		if r := g.Report(asked, 100); r.Count != 1 || len(r.Targets) != 1 || r.Targets[0].Address != last.Addr {
			t.Errorf("%s: %+v", asked, r)
		}
	}
	if r := g.Report(last.URL, 1); r.Count != 2 || len(r.Targets) != 1 || r.Targets[0].Address != last.Addr {
		t.Errorf("%s: %+v", last.URL, r)
	}
	if r := g.Report("http://nobody:1", 100); r.Count != 0 || r.Targets == nil {
		t.Errorf("of no target: %+v", r)
	}
}

// What judgements tell costs memory only when a limit falls.
func TestGateViewDoesNotAllocate(t *testing.T) {
	var v View
	l := gate.Look{Limit: 4, Cuts: [gate.Reasons]uint64{1, 0}, Last: make([]gate.Cut, 1)}
	v.Show(l)
	if n := testing.AllocsPerRun(1000, func() { v.Show(l) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
