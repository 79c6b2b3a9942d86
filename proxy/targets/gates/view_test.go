package gates

import (
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/upstream"
)

// fake is loops with gates.
type fake map[*roster.Target]*Gate

func (f fake) gate(t *roster.Target) *Gate { return f[t] }

func (f fake) SetTargets(list []*roster.Target) {
	for _, t := range list {
		f[t] = new(Gate)
	}
}

func (f fake) Refresh() {}

func (f fake) Views(*roster.Target) iter.Seq[*roster.LoopView] {
	return func(func(*roster.LoopView) bool) {}
}

func (f fake) Connected(*roster.Target) {}

func (f fake) Checked(*roster.Target, upstream.CheckResult, time.Duration) {}

// crowd is the gates of n targets.
func crowd(n int) (*Gates, *roster.List, fake) {
	var specs []*roster.Target
	for i := range n {
		specs = append(specs, &roster.Target{URL: fmt.Sprintf("http://name%d:80", i/2),
			Addr: fmt.Sprintf("10.0.%d.%d:80", i/256, i%256)})
	}
	loops := make(fake)
	list := roster.New(roster.Config{Loops: loops})
	list.Set(specs)
	return New(Config{Settings: Settings{Mode: gate.On, Wait: 50 * time.Millisecond}, Bounds: gate.Config{Min: 4},
		Targets: list, Of: loops.gate, Classes: new(MetricClasses)}), list, loops
}

// Of many targets those that shed most are told first; one is found by its number,
// its address or its URL, which several may have.
func TestGatesOfManyTargets(t *testing.T) {
	g, list, loops := crowd(10_000)
	last := list.All()[9_999]
	of := loops[last]
	of.Shed[ClassDefault].Add(6)
	of.Change(gate.LoopUse{}, gate.LoopUse{Short: 10})
	of.Waiting.Add(2)
	learn(of)
	r := g.Report("", 3)
	if r.Mode != "on" || r.Wait != .05 || r.Count != 10_000 || len(r.Targets) != 3 || r.Targets[1].Number != 1 ||
		r.Targets[1].Limit != 0 {
		t.Errorf("all: %+v", r)
	}
	st := r.Targets[0]
	if st.Number != 10_000 || st.Limit != of.Limit() || st.LimitMin != 4 || st.InFlight != 10 || st.Waiting != 2 ||
		st.Shed != 6 || st.Baseline < .009 || st.Baseline > .011 || st.Median != st.Baseline ||
		st.Cuts["latency"] != 0 || st.Cuts["errors"] != 1 || len(st.Last) != 1 || st.Last[0].Why != "errors" ||
		st.Last[0].To > 8 {
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

// The gates of 10,000 targets that have all learned, and cut their limits, take little memory.
func TestMemoryOfManyGates(t *testing.T) {
	const targets, most = 10_000, 4 << 10 // bytes for each
	all := make([]Gate, targets)
	before := heap()
	for range 2 {
		for i := range all {
			learn(&all[i])
		}
	}
	if each := (heap() - before) / targets; each > most {
		t.Errorf("a gate takes %d bytes, may take %d", each, most)
	}
	if all[targets-1].State().Cuts[gate.Errors] == 0 {
		t.Error("the last gate has learned nothing")
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// learn has a gate learn from answers after 10 ms, and then from refusals.
func learn(g *Gate) {
	g.Begin(New(Config{Bounds: gate.Config{Min: 4}}), 0)
	now, late := time.Unix(7, 0), PendingResponses(nil)
	for i := range 600 {
		now = now.Add(time.Millisecond)
		sent := now.Add(-10 * time.Millisecond)
		g.Answered(now, &gate.Response{Sent: sent, Refused: i > 500, Full: true, InFlight: 8}, &late)
	}
}

// Loops that tell of answers at the same time lose none of them for good, and what is told
// of the gate meanwhile is whole.
func TestGateOfManyLoops(t *testing.T) {
	const loops, each = 8, 20_000
	g, all := new(Gate), New(Config{Bounds: gate.Config{Min: 2, Max: 64}})
	var running sync.WaitGroup
	for range loops {
		running.Go(func() {
			var late PendingResponses
			has := gate.LoopUse{}
			for i := range each {
				g.Begin(all, 0)
				is := gate.LoopUse{Short: i % 7, Waiting: i % 3, Streams: i % 5}
				g.Change(has, is)
				has = is
				now := time.Unix(7, int64(i)*int64(time.Millisecond))
				g.Answered(now, &gate.Response{Sent: now.Add(-time.Duration(i%20) * time.Millisecond), Full: true,
					InFlight: 1 + i%64}, &late)
				if l := g.State(); l.Limit < 2 || l.Limit > 64 || g.Limit() < 2 || g.Limit() > 64 {
					t.Errorf("the limit is %d, shown as %d", l.Limit, g.Limit())
					return
				}
				if len(late) > lateMost {
					t.Errorf("%d answers are kept for later", len(late))
					return
				}
			}
			g.Change(has, gate.LoopUse{})
		})
	}
	running.Wait()
	if g.State().Median == 0 {
		t.Error("the gate has judged nothing")
	}
	if _, atTarget := g.Now(); g.Taken() != 0 || g.InFlight() != 0 || atTarget != 0 {
		t.Errorf("%d places are taken, %d in flight, %d at the target; want none", g.Taken(), g.InFlight(), atTarget)
	}
}

// The bound that the advisor recommends applies to gates that exist and to those that begin,
// within the settings, and what they have learned stays.
func TestAdvisedBound(t *testing.T) {
	g, list, loops := crowd(2)
	g.cfg.Bounds.Max = 50
	log := new(testkit.LogRecords)
	g.cfg.Log = log.Logger("Gate")
	of, other := loops[list.All()[0]], loops[list.All()[1]]
	of.Begin(g, 0)
	for _, c := range []struct{ advised, limit, most int }{{20, 20, 20}, {20, 20, 20}, {2, 4, 4}, {1000, 50, 50},
		{30, 30, 30}, {0, 50, 50}, {30, 30, 30}} {
		g.Advise(c.advised)
		st := g.Report("1", 1)
		if of.Limit() != c.limit || st.Targets[0].LimitMax != c.most || st.Advised != c.advised {
			t.Errorf("advised %d: limit %d, %+v; want %d", c.advised, of.Limit(), st, c.limit)
		}
	}
	if got := other.Limit(); got != 0 {
		t.Errorf("a gate without requests has the limit %d, want none", got)
	}
	other.Begin(g, 0)
	learn(of)
	if before := of.State(); other.Limit() != 30 || before.Limit > 30 {
		t.Errorf("the limits are %d and %d", other.Limit(), before.Limit)
	}
	before := of.State()
	g.Advise(25)
	g.Advise(0)
	if after := of.State(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the gate knows %+v, before the bound changed %+v", after, before)
	}
	first, last := "INFO Gate - The advisor bounds the limits of all targets max=20 was=50",
		"INFO Gate - The advisor no longer bounds the limits of the targets max=50 was=25"
	if lines := log.Taken(); len(lines) != 8 || lines[0] != first || lines[7] != last {
		t.Errorf("logged %d lines: %q", len(lines), lines)
	}
}

// With GATE=off there is nothing to bound.
func TestAdvisedBoundWithoutGates(t *testing.T) {
	g := New(Config{Settings: Settings{Mode: gate.Off}})
	g.Advise(20)
	if b := g.Bounds(); b.Max != New(Config{}).Bounds().Max {
		t.Errorf("bounds %+v", b)
	}
}
