package upstream

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A node is a target that is nothing but its load.
type node struct{ name, inFlight int }

// group returns a Balancer of nodes with such loads.
func group(b Balance, seed uint64, inFlight ...int) *Balancer[*node] {
	g := NewBalancer(b, 0, func(n *node) int { return n.inFlight }, rand.New(rand.NewPCG(seed, 1)))
	for i, f := range inFlight {
		g.Add(&node{i, f})
	}
	return g
}

// without ejects, and has active checks refuse, targets by index.
func without(g *Balancer[*node], ejected, down []int) *Balancer[*node] {
	for _, i := range ejected {
		g.Targets()[i].ConnectFailed(epoch, g.Targets()[i].Epoch())
	}
	for _, i := range down {
		g.Targets()[i].Checked(epoch, CheckedDown, epoch)
	}
	return g
}

// spread is how often each of n nodes is chosen by so many new requests.
func spread(g *Balancer[*node], n, requests int) []int {
	counts := make([]int, n)
	for range requests {
		if t := g.Choose(epoch, &TriedTargets{}); t != nil {
			counts[t.Value.name]++
		}
	}
	return counts
}

// near reports whether every count is within 5 standard deviations of its share
// of the whole.
func near(counts []int, shares ...int) bool {
	n, parts := 0, 0
	for i, c := range counts {
		n, parts = n+c, parts+shares[i]
	}
	for i, c := range counts {
		p := float64(shares[i]) / float64(parts)
		off := float64(c) - float64(n)*p
		if off*off > 25*float64(n)*p*(1-p) {
			return false
		}
	}
	return true
}

func TestGroupP2C(t *testing.T) {
	for _, test := range []struct {
		name          string
		inFlight      []int
		ejected, down []int
		shares        []int
	}{
		{"equal ones", []int{7, 7, 7}, nil, nil, []int{1, 1, 1}},
		{"a staircase", []int{0, 1, 2, 3}, nil, nil, []int{3, 2, 1, 0}},
		{"two", []int{3, 2}, nil, nil, []int{0, 1}},
		{"two equal ones", []int{2, 2}, nil, nil, []int{1, 1}},
		{"one is ejected", []int{0, 5, 5, 5}, []int{0}, nil, []int{0, 1, 1, 1}},
		{"all but two", []int{0, 5, 0, 0, 5, 0, 0, 0}, []int{0, 2, 3}, []int{5, 6, 7}, []int{0, 1, 0, 0, 1, 0, 0, 0}},
		{"all but one", []int{0, 0, 9, 0, 0}, []int{0, 1}, []int{3, 4}, []int{0, 0, 1, 0, 0}},
		{"all ejected: all are tried", []int{1, 1, 1}, []int{0, 1, 2}, nil, []int{1, 1, 1}},
		{"all ejected but one, and that one down", []int{1, 1, 1}, []int{0, 1}, []int{2}, []int{1, 1, 0}},
		{"the only one ejected", []int{1}, []int{0}, nil, []int{1}},
	} {
		got := spread(without(group(P2C, 1, test.inFlight...), test.ejected, test.down), len(test.inFlight), 6000)
		if slices.Max(got) == 0 || !near(got, test.shares...) {
			t.Errorf("%s: chosen %v, want in the ratio of %v", test.name, got, test.shares)
		}
	}
}

// Policies that take turns distribute requests evenly to the last one, whichever targets are left
// out.
func TestGroupTurns(t *testing.T) {
	for _, test := range []struct {
		name          string
		balance       Balance
		inFlight      []int
		ejected, down []int
		want          []int
	}{
		{"round robin", RoundRobin, []int{9, 0, 5}, nil, nil, []int{4, 4, 4}},
		{"one is ejected, its neighbour does not pay", RoundRobin, []int{0, 0, 0, 0}, []int{1}, nil, []int{4, 0, 4, 4}},
		{"all ejected", RoundRobin, []int{0, 0, 0}, []int{0, 1, 2}, nil, []int{4, 4, 4}},
		{"one down, others ejected", RoundRobin, []int{0, 0, 0}, []int{0, 2}, []int{1}, []int{6, 0, 6}},
		{"all down", RoundRobin, []int{0, 0}, nil, []int{0, 1}, []int{0, 0}},
		{"least", LeastInFlight, []int{4, 0, 9}, nil, nil, []int{0, 12, 0}},
		{"least, two equal behind a full one", LeastInFlight, []int{1, 0, 0}, nil, nil, []int{0, 6, 6}},
		{"least, three of five", LeastInFlight, []int{0, 9, 0, 9, 0}, nil, nil, []int{4, 0, 4, 0, 4}},
		{"the least is ejected", LeastInFlight, []int{0, 2, 2}, []int{0}, nil, []int{0, 6, 6}},
		{"all are ejected", LeastInFlight, []int{1, 2, 1}, []int{0, 1, 2}, nil, []int{6, 0, 6}},
	} {
		got := spread(without(group(test.balance, 1, test.inFlight...), test.ejected, test.down), len(test.inFlight), 12)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: chosen %v of 12, want %v", test.name, got, test.want)
		}
	}
}

// Requests that stay make the load even, by every way that looks at it.
func TestLoadEvensOut(t *testing.T) {
	for _, b := range []Balance{P2C, LeastInFlight} {
		g := group(b, 1, make([]int, 10)...)
		for range 10_000 {
			g.Choose(epoch, &TriedTargets{}).Value.inFlight++
		}
		low, high := 10_000, 0
		for _, one := range g.Targets() {
			low, high = min(low, one.Value.inFlight), max(high, one.Value.inFlight)
		}
		if bound := map[Balance]int{P2C: 8, LeastInFlight: 0}[b]; high-low > bound {
			t.Errorf("%v: from %d to %d in flight, want at most %d apart", b, low, high, bound)
		}
	}
}

func TestTurnsGoOnWhenTheListChanges(t *testing.T) {
	g := group(RoundRobin, 1, 0, 0, 0, 0)
	var order []int
	take := func(n int) {
		for range n {
			order = append(order, g.Choose(epoch, &TriedTargets{}).Value.name)
		}
	}
	take(2)
	g.Retire(g.Targets()[0]) // before the last chosen
	take(1)
	g.Retire(g.Targets()[1]) // the last chosen itself
	take(1)
	g.Add(&node{name: 4})
	take(4)
	if want := []int{0, 1, 2, 3, 4, 1, 3, 4}; !slices.Equal(order, want) {
		t.Errorf("chosen %v, want %v", order, want)
	}
}

func TestRetire(t *testing.T) {
	g := group(P2C, 1, 0, 0)
	gone := g.Targets()[0]
	g.Retire(gone)
	g.Retire(gone)
	if gone.Status(epoch) != Draining || len(g.Targets()) != 1 || g.Targets()[0] == gone {
		t.Errorf("retired: %v, %d targets", gone.Status(epoch), len(g.Targets()))
	}
	if got := spread(g, 2, 10); got[0] != 0 {
		t.Errorf("a retired target was chosen: %v", got)
	}
	g.Retire(g.Targets()[0])
	if g.Choose(epoch, &TriedTargets{}) != nil || g.RetryAfter(epoch) != 0 {
		t.Error("a group without targets chose one, or promised one")
	}
}

// A request tries each target once, at most triesMax of them, whatever comes
// into the list and goes meanwhile.
func TestTriesEachOnce(t *testing.T) {
	for b := P2C; b <= LeastInFlight; b++ {
		for _, n := range []int{1, 2, 5, triesMax, triesMax + 1} {
			g, tried, seen := group(b, 1, make([]int, n)...), TriedTargets{}, map[int]bool{}
			for range triesMax + 2 {
				one := g.Choose(epoch, &tried)
				if one == nil {
					break
				}
				if seen[one.Value.name] {
					t.Errorf("%v: one of %d targets was tried twice", b, n)
				}
				seen[one.Value.name] = true
				g.Retire(g.Targets()[0])
				g.Add(&node{name: n + len(seen)})
			}
			if tried.Count() != len(seen) || len(seen) != triesMax {
				t.Errorf("%v: %d targets tried of a list of %d that is renewed for ever, counted %d", b, len(seen), n,
					tried.Count())
			}
		}
	}
	g, tried := group(P2C, 1, 0, 0, 0), TriedTargets{}
	for range 3 {
		g.Choose(epoch, &tried)
	}
	if g.Choose(epoch, &tried) != nil {
		t.Error("a fourth of three targets")
	}
}

// While one target is up, ejected ones are not tried even by a request that has
// tried that one; when it fails too, they are.
func TestLastResort(t *testing.T) {
	g, tried := without(group(P2C, 1, 0, 0), []int{0}, nil), TriedTargets{}
	up := g.Choose(epoch, &tried)
	if up.Value.name != 1 || g.Choose(epoch, &tried) != nil {
		t.Errorf("first %d, and then an ejected one", up.Value.name)
	}
	up.ConnectFailed(epoch, up.Epoch())
	if last := g.Choose(epoch, &tried); last == nil || last.Value.name != 0 {
		t.Error("nobody is up and the ejected one is not tried")
	}
}

// Of the requests that come while a target is probed one finds out; the others
// go elsewhere. When it ends without a word the next one finds out.
func TestOneProbe(t *testing.T) {
	g := without(group(RoundRobin, 1, 0, 0), []int{0}, nil)
	now := epoch.Add(2 * time.Second)
	probes := func() (n int) {
		for range 10 {
			if g.Choose(now, &TriedTargets{}).Value.name == 0 {
				n++
			}
		}
		return n
	}
	first := g.Targets()[0]
	if n := probes(); n != 1 {
		t.Errorf("%d probes at a time", n)
	}
	first.Abandoned(first.Epoch() - 1) // some request of before
	if n := probes(); n != 0 {
		t.Errorf("%d probes beside the first", n)
	}
	first.Abandoned(first.Epoch())
	if n := probes(); n != 1 {
		t.Errorf("%d probes after one that said nothing", n)
	}
	now = now.Add(10*time.Second - 1)
	if n := probes(); n != 0 {
		t.Errorf("%d probes beside one that takes long", n)
	}
	now = now.Add(1)
	if n := probes(); n != 1 {
		t.Errorf("%d probes after one that takes too long", n)
	}
	first.Answered(now, first.Epoch(), 200)
	if n := probes(); n != 5 {
		t.Errorf("up again, %d of 10", n)
	}
}

func TestRetryAfter(t *testing.T) {
	g := group(P2C, 1, 0, 0)
	for i, one := range g.Targets() {
		one.Checked(epoch, CheckedDown, epoch.Add(time.Duration(5-i)*time.Second))
	}
	if g.Choose(epoch, &TriedTargets{}) != nil {
		t.Error("a target that is down was chosen")
	}
	for _, test := range []struct{ at, want time.Duration }{{0, 4 * time.Second}, {3 * time.Second, time.Second},
		{9 * time.Second, 0}} {
		if got := g.RetryAfter(epoch.Add(test.at)); got != test.want {
			t.Errorf("after %v: retry after %v, want %v", test.at, got, test.want)
		}
	}
	g.Targets()[1].Checked(epoch, CheckedUp, epoch)
	g.Targets()[1].ConnectFailed(epoch, g.Targets()[1].Epoch())
	if got := g.RetryAfter(epoch); got != 0 {
		t.Errorf("one may be tried now, and retry after %v", got)
	}
}

// p2c looks at the loads of two, however many there are.
func TestP2CLooksAtTwo(t *testing.T) {
	looked := 0
	g := NewBalancer(P2C, 0, func(int) int { looked++; return 0 }, rand.New(rand.NewPCG(1, 1)))
	for i := range 1000 {
		g.Add(i)
	}
	for range 1000 {
		g.Choose(epoch, &TriedTargets{})
	}
	if looked != 2000 {
		t.Errorf("%d loads were looked at for 1000 choices", looked)
	}
}

func TestChooseAllocatesNothing(t *testing.T) {
	for b := P2C; b <= LeastInFlight; b++ {
		for _, g := range []*Balancer[*node]{
			group(b, 1, 0),
			group(b, 1, 0, 1, 2),
			without(group(b, 1, 0, 1, 2), []int{1}, []int{2}),
			without(group(b, 1, 0, 1, 2), []int{0, 1, 2}, nil),
		} {
			var tried TriedTargets
			if n := testing.AllocsPerRun(100, func() {
				tried = TriedTargets{}
				one := g.Choose(epoch, &tried)
				m := one.Epoch()
				one.Connected(epoch)
				one.Answered(epoch, m, 200)
				g.Choose(epoch, &tried)
			}); n != 0 {
				t.Errorf("%v of %d: %v allocations", b, len(g.Targets()), n)
			}
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	for _, bench := range []struct {
		name string
		g    *Balancer[*node]
	}{
		{"one", group(P2C, 1, 0)},
		{"p2c of 3", group(P2C, 1, 1, 2, 3)},
		{"p2c of 100, 10 ejected", without(group(P2C, 1, make([]int, 100)...), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nil)},
		{"round robin of 3", group(RoundRobin, 1, 1, 2, 3)},
		{"least of 3", group(LeastInFlight, 1, 1, 2, 3)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var tried TriedTargets
			for b.Loop() {
				tried = TriedTargets{}
				bench.g.Choose(epoch, &tried)
			}
		})
	}
}

// Requests go to a target with room as long as there is one that is up, with every balance, and
// to any target otherwise.
func TestGroupRoom(t *testing.T) {
	for _, b := range []Balance{P2C, RoundRobin, LeastInFlight} {
		for _, test := range []struct {
			name    string
			full    []int
			ejected []int
			shares  []int // 0: never chosen
		}{
			{"one has room, and most in flight", []int{0, 1}, nil, []int{0, 0, 1}},
			{"two have room", []int{1}, nil, []int{1, 0, 1}},
			{"none has room", []int{0, 1, 2}, nil, []int{1, 1, 1}},
			{"the one with room is ejected", []int{0, 1}, []int{2}, []int{1, 1, 0}},
			{"all are ejected", []int{0, 2}, []int{0, 1, 2}, []int{0, 1, 0}},
		} {
			inFlight := []int{1, 1, 1}
			if len(test.full) == 2 && test.ejected == nil {
				inFlight[2] = 9
			}
			g := without(group(b, 1, inFlight...), test.ejected, nil)
			g.Bound(func(n *node) bool { return !slices.Contains(test.full, n.name) })
			for i, count := range spread(g, 3, 300) {
				if (count > 0) != (test.shares[i] > 0) {
					t.Errorf("%v, %s: target %d was chosen %d times of 300", b, test.name, i, count)
				}
			}
		}
	}
}
