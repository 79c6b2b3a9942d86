package file

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"weir/proxy/deferred"
)

// at is a time of tests, in µs.
func at(us int64) time.Time { return time.UnixMicro(1_000_000 + us) }

// entry returns an entry of a line that is due.
func entry(n int, line string) *deferred.Entry {
	return &deferred.Entry{
		ID: deferred.ID{byte(n >> 8), byte(n), 1}, Rule: "orders", LineKey: line,
		Scope:    deferred.SHA256{byte(n >> 8), byte(n), 1},
		Accepted: at(0), Due: at(0), Expires: at(1_000_000),
		Remote: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n % 7)}), 1),
	}
}

// A twin does what an Index does, slowly.
type twin struct {
	lines  map[string][]*deferred.Entry
	served map[string]int64
}

// at is when a line is due, and which of its entries is.
func (w *twin) at(name string) (first int64, e *deferred.Entry) {
	first = math.MaxInt64
	for i, c := range w.lines[name] {
		if i == w.lines[name][len(w.lines[name])-1].ParallelMax() {
			break
		}
		if c.State == deferred.Waiting && wake(c) < first {
			first, e = wake(c), c
		}
	}
	if e != nil {
		first = max(first, w.served[name])
	}
	return first, e
}

// An Index picks an entry of a line that is due for longest, in any history of entries that come,
// are put off and go.
func TestPick(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 7))
		x, w := New(), &twin{make(map[string][]*deferred.Entry), make(map[string]int64)}
		var held []*deferred.Entry
		now, seq := int64(0), 0
		for range 600 {
			now += rng.Int64N(20)
			us := at(now).UnixMicro()
			w.places(t, x)
			switch n := rng.IntN(11); {
			case n == 10:
				if e := w.waiting(rng); e != nil {
					w.settle(x, e, us, true) // it is cancelled
				}
			case n < 4:
				e := entry(seq, fmt.Sprint(rng.IntN(5)))
				if e.Due = at(now + rng.Int64N(30)); e.LineKey == "0" {
					e.Order, e.Parallel = deferred.SeveralAtATime, 3
				}
				seq++
				w.lines[e.LineKey] = append(w.lines[e.LineKey], e)
				if got := x.Add(e, 100, uint64(seq)); got != len(w.lines[e.LineKey]) {
					t.Fatalf("seed %d: position %d, not %d", seed, got, len(w.lines[e.LineKey]))
				}
			case n < 8:
				if e := w.pick(t, x, us); e != nil {
					held = append(held, e)
				}
			case len(held) > 0:
				i := rng.IntN(len(held))
				e := held[i]
				held = append(held[:i], held[i+1:]...)
				w.settle(x, e, us, rng.IntN(2) == 0)
			}
		}
		if want := len(w.lines["0"]) + len(w.lines["1"]) + len(w.lines["2"]) + len(w.lines["3"]) +
			len(w.lines["4"]); x.Open != want {
			t.Errorf("seed %d: %d are open, not %d", seed, x.Open, want)
		}
	}
}

// pick holds what the index picks against what is due.
func (w *twin) pick(t *testing.T, x *Index, us int64) *deferred.Entry {
	t.Helper()
	first := int64(math.MaxInt64)
	for name := range w.lines {
		due, _ := w.at(name)
		first = min(first, due)
	}
	if next := x.Next(nil); next.IsZero() != (first == math.MaxInt64) || !next.IsZero() && next.UnixMicro() != first {
		t.Fatalf("the next is due at %v, not %d", next, first)
	}
	i := x.Pick(us, nil)
	if (i != 0) != (first <= us) {
		t.Fatalf("picked %d at %d, due is %d", i, us, first)
	}
	if i == 0 {
		return nil
	}
	for name := range w.lines {
		for k, e := range w.lines[name] {
			if e.ID != x.At(i).ID {
				continue
			}
			if due, _ := w.at(name); due != first || k >= w.lines[name][len(w.lines[name])-1].ParallelMax() ||
				e.State != deferred.Waiting || wake(e) > us {
				t.Fatalf("picked entry %d of line %s, which is due at %d, not the one at %d", k, name, due, first)
			}
			x.Count(e, 100, -1)
			e.State = deferred.Delivering
			x.Update(us, i, e, 100)
			w.served[name] = us
			return e
		}
	}
	t.Fatal("what is picked is not there")
	return nil
}

// places wants all entries to be at their places, and no line to remember more gaps than it has
// entries.
func (w *twin) places(t *testing.T, x *Index) {
	t.Helper()
	for name, line := range w.lines {
		if len(line) > 0 {
			if gaps := len(x.gaps[x.items.at(x.Find(line[0].ID)).line]); gaps > len(line)+1 {
				t.Fatalf("line %s of %d entries has %d gaps", name, len(line), gaps)
			}
		}
		for k, e := range line {
			if got := x.Position(x.Find(e.ID)); got != k+1 {
				t.Fatalf("entry %d of line %s is at place %d", k+1, name, got)
			}
		}
	}
}

// waiting is an entry that waits; nil: there is none in the line that is looked at.
func (w *twin) waiting(rng *rand.Rand) *deferred.Entry {
	line := w.lines[fmt.Sprint(rng.IntN(5))]
	if len(line) == 0 {
		return nil
	}
	if e := line[rng.IntN(len(line))]; e.State == deferred.Waiting {
		return e
	}
	return nil
}

// settle has an entry go, or be put off.
func (w *twin) settle(x *Index, e *deferred.Entry, us int64, gone bool) {
	i := x.Find(e.ID)
	if !gone {
		w.served[e.LineKey] = us
		x.Count(e, 100, -1)
		e.State, e.Due = deferred.Waiting, time.UnixMicro(us+50)
		x.Update(us, i, e, 100)
		return
	}
	line := w.lines[e.LineKey]
	for k := range line {
		if line[k] == e {
			w.lines[e.LineKey] = append(line[:k:k], line[k+1:]...)
			break // the others have moved
		}
	}
	if len(w.lines[e.LineKey]) == 0 {
		delete(w.served, e.LineKey)
	}
	x.Unlink(i, e)
	x.Forget(i)
}

// A long line does not keep the others waiting.
func TestTurns(t *testing.T) {
	t.Parallel()
	x := New()
	for n := range 10 {
		x.Add(entry(n, "long"), 100, uint64(n+1))
	}
	late := entry(10, "short")
	late.Due = at(5)
	x.Add(late, 100, 11)
	for us := int64(10); ; us++ {
		i := x.Pick(at(us).UnixMicro(), nil)
		if x.At(i).ID == late.ID {
			return
		}
		if us > 11 {
			t.Fatal("the long line goes before the short one again")
		}
		e := entry(int(x.At(i).Seq)-1, "long")
		x.Unlink(i, e)
		x.Forget(i)
	}
}

// The place of an entry in a long line takes about as long to find as that in a short one, also when
// every other entry was cancelled.
func BenchmarkPosition(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, last := New(), uint32(0)
			e := entry(0, "long")
			e.Scope = deferred.SHA256{} // or all would have the same
			for i := range n {
				e.ID = deferred.ID{byte(i), byte(i >> 8), byte(i >> 16)}
				x.Add(e, 100, uint64(i+1))
				last = x.Find(e.ID)
				if i%2 == 1 && i < n-1 {
					x.Unlink(last, e)
				}
			}
			for b.Loop() {
				if x.Position(last) != n/2+1 {
					b.Fatal(x.Position(last))
				}
			}
		})
	}
}
