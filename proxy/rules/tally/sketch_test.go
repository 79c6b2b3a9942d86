package tally

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// seed is that of all sketches here: what they answer does not depend on it.
var seed = maphash.MakeSeed()

// A model counts all keys, in as much memory as it takes.
type model struct {
	counts map[string]float64
	total  float64
	due    time.Time
}

func (m *model) touch(now time.Time, key string) {
	if m.counts == nil {
		m.counts, m.due = make(map[string]float64), now.Add(time.Minute)
	}
	for ; !now.Before(m.due); m.due = m.due.Add(time.Minute) {
		m.total /= 2
		for k := range m.counts {
			m.counts[k] /= 2
		}
	}
	m.counts[key]++
	m.total++
}

// check fails unless the sketch keeps its promises and its memory is in order.
func check(t *testing.T, what string, v Ranking, m *model, size int) {
	t.Helper()
	seen := make(map[string]bool)
	for i, e := range v.Entries {
		key := string(e.Key)
		seen[key] = true
		truth := m.counts[key]
		if truth < float64(e.Count-e.Error) || truth >= float64(e.Count+v.Rounding) {
			t.Fatalf("%s: %s was seen %g times, told %d with an error of %d", what, key, truth, e.Count, e.Error)
		}
		if e.Error < 0 || e.Error > e.Count || i > 0 && e.Count > v.Entries[i-1].Count {
			t.Fatalf("%s: entry %d of %+v", what, i, v.Entries)
		}
	}
	for key, truth := range m.counts {
		if !seen[key] && truth >= float64(v.Missed+v.Rounding) {
			t.Fatalf("%s: %s was seen %g times of %g and is not there; missed is %d", what, key, truth, m.total, v.Missed)
		}
	}
	if float64(v.Missed) > m.total/float64(size) {
		t.Fatalf("%s: %d may be missed of %g with %d counters", what, v.Missed, m.total, size)
	}
	if m.total < float64(v.Total) || m.total >= float64(v.Total+v.Rounding) {
		t.Fatalf("%s: the total is %g, told %d", what, m.total, v.Total)
	}
}

// inOrder fails unless order, groups and table of a sketch agree with each other.
func inOrder(t *testing.T, s *Sketch) {
	t.Helper()
	used := 0
	for place := 0; place < s.n; {
		g := s.groups[s.counters[s.order[place]].group]
		if int(g.first) != place || g.last < g.first || g.count < 1 {
			t.Fatalf("place %d is in group %+v", place, g)
		}
		for ; place <= int(g.last); place++ {
			i := s.order[place]
			if int(s.counters[i].place) != place || s.groups[s.counters[i].group] != g {
				t.Fatalf("counter %d at place %d: %+v", i, place, s.counters[i])
			}
			used++
		}
	}
	slots := 0
	for _, i := range s.table {
		if i != 0 {
			slots++
		}
	}
	if used != s.n || slots != s.n {
		t.Fatalf("%d counters in use, %d in groups, %d in the table", s.n, used, slots)
	}
}

// Whatever is seen and when: counts are within their errors, and what is busier
// than the bound is there.
func TestLaws(t *testing.T) {
	for _, size := range []int{1, 2, 3, 8, 50} {
		for round := range uint64(40) {
			rng := rand.New(rand.NewPCG(uint64(size), round))
			zipf := rand.NewZipf(rng, 1.05+rng.Float64(), 1, uint64(10+rng.IntN(1000)))
			s, m, now := NewSketch(size, time.Minute, seed), new(model), epoch
			pace := time.Duration(rng.IntN(int(2 * time.Second)))
			for range 2000 {
				switch rng.IntN(500) {
				case 0:
					now = now.Add(time.Duration(rng.IntN(int(5 * time.Minute))))
				case 1:
					now = now.Add(-time.Duration(rng.IntN(int(time.Minute)))) // clocks step back
				}
				now = now.Add(pace)
				key := fmt.Sprint(zipf.Uint64())
				s.Observe(now, []byte(key))
				m.touch(now, key)
			}
			inOrder(t, s)
			check(t, fmt.Sprintf("%d counters, round %d", size, round), s.Ranking(now), m, size)
		}
	}
}

// The same of several sketches together.
func TestMergeLaws(t *testing.T) {
	const size = 20
	for round := range uint64(40) {
		rng := rand.New(rand.NewPCG(1, round))
		zipf := rand.NewZipf(rng, 1.2, 1, 500)
		sketches := make([]*Sketch, 1+rng.IntN(5))
		for i := range sketches {
			sketches[i] = NewSketch(size, time.Minute, seed)
			sketches[i].Observe(epoch, nil) // their half-lives begin together
		}
		m := new(model)
		for range sketches {
			m.touch(epoch, "")
		}
		now := epoch
		for range 3000 {
			now = now.Add(100 * time.Millisecond)
			key := fmt.Sprint(zipf.Uint64())
			sketches[rng.IntN(len(sketches))].Observe(now, []byte(key))
			m.touch(now, key)
		}
		var views []Ranking
		for _, s := range sketches {
			views = append(views, s.Ranking(now))
		}
		check(t, fmt.Sprintf("%d sketches, round %d", len(sketches), round), Merge(views...), m, size)
	}
}

// A key that was busy before is forgotten in the end.
func TestDecay(t *testing.T) {
	s := NewSketch(4, time.Minute, seed)
	for range 1000 {
		s.Observe(epoch, []byte("past"))
	}
	for i, test := range []struct {
		after time.Duration
		past  int64 // 0: not there
	}{{59 * time.Second, 1000}, {time.Minute, 500}, {2*time.Minute + time.Second, 250}, {9 * time.Minute, 1},
		{10 * time.Minute, 0}, {1000 * time.Hour, 0}} {
		got := int64(0)
		if v := s.Ranking(epoch.Add(test.after)); len(v.Entries) > 0 {
			got = v.Entries[0].Count
		}
		if got != test.past {
			t.Errorf("step %d: after %v the key counts %d, want %d", i, test.after, got, test.past)
		}
	}
	inOrder(t, s)
}

// A flood of new keys takes no memory and does not hide the busy keys.
func TestFlood(t *testing.T) {
	s := NewSketch(64, time.Minute, seed)
	fresh := make([]byte, 0, 64)
	i := 0
	flood := func() {
		i++
		s.Observe(epoch, fmt.Appendf(fresh[:0], "fresh %d", i))
		if i%20 == 0 {
			s.Observe(epoch, []byte("busy"))
		}
	}
	for range 20_000 {
		flood()
	}
	if top := s.Ranking(epoch).Entries[0]; string(top.Key) != "busy" || top.Count < 1000 || top.Count-top.Error > 1000 {
		t.Errorf("the busiest is %q with %d, off by at most %d; want busy with 1000", top.Key, top.Count, top.Error)
	}
	key := []byte("fresh again 0000")
	if allocs := testing.AllocsPerRun(1000, func() {
		i++
		key[len(key)-1], key[len(key)-2] = byte(i), byte(i>>8)
		s.Observe(epoch.Add(time.Duration(i)*time.Second), key)
	}); allocs != 0 {
		t.Errorf("a fresh key allocates %g times", allocs)
	}
}

// Long keys are cut but not taken for each other; the empty key is one.
func TestKeys(t *testing.T) {
	s := NewSketch(10, time.Minute, seed)
	long := strings.Repeat("x", KeyBytesMax)
	keys := []string{"", "\x00", long, long + "a", long + "b", long + "bb"}
	for i, key := range keys {
		for range len(keys) - i {
			s.Observe(epoch, []byte(key))
		}
	}
	v := Merge(s.Ranking(epoch), Ranking{})
	if len(v.Entries) != len(keys) {
		t.Fatalf("%d keys became %d", len(keys), len(v.Entries))
	}
	for i, e := range v.Entries {
		if kept := keys[i][:min(len(keys[i]), KeyBytesMax)]; string(e.Key) != kept || e.Bytes != len(keys[i]) ||
			e.Count != int64(len(keys)-i) {
			t.Errorf("key %d: %q of %d bytes, %d times", i, e.Key, e.Bytes, e.Count)
		}
	}
}

// A view is a value: what comes later does not change it.
func TestViewIsValue(t *testing.T) {
	s := NewSketch(1, time.Minute, seed)
	s.Observe(epoch, []byte("one"))
	v := s.Ranking(epoch)
	s.Observe(epoch, []byte("two"))
	if e := v.Entries[0]; string(e.Key) != "one" || e.Count != 1 {
		t.Errorf("the view became %q, %d", e.Key, e.Count)
	}
}

func TestNewPanics(t *testing.T) {
	for _, test := range []struct {
		size     int
		halfLife time.Duration
	}{{0, 1}, {SketchSizeMax + 1, 1}, {1, 0}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a sketch of %d counters with half-life %v was made", test.size, test.halfLife)
				}
			}()
			NewSketch(test.size, test.halfLife, seed)
		}()
	}
}

func BenchmarkTouch(b *testing.B) {
	for _, kind := range []string{"busy", "zipf", "fresh"} {
		b.Run(kind, func(b *testing.B) {
			zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 100_000)
			keys := make([][]byte, 1<<16)
			for i := range keys {
				switch n := uint64(i); kind {
				case "busy":
					keys[i] = fmt.Appendf(nil, "9:client-%03d", n%100)
				case "zipf":
					keys[i] = fmt.Appendf(nil, "13:client-%06d", zipf.Uint64())
				default:
					keys[i] = fmt.Appendf(nil, "13:client-%06d", n)
				}
			}
			s, now := NewSketch(512, time.Minute, seed), epoch
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Observe(now, keys[i&(1<<16-1)])
			}
		})
	}
}
