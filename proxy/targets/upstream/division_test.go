package upstream

import (
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"
)

// A division looks only at those that may have places. Clients that come, pause for longer than
// averageSpan and come back on any loop must be counted as if it looked at all.
func TestWeighCountsAllThatHavePlaces(t *testing.T) {
	const loops, clients = 3, 512
	r := rand.New(rand.NewPCG(1, 2))
	among := NewQueueSet(loops)
	var of [loops]Queue[int]
	var placed [loops][]int
	for i := range of {
		of[i].JoinSet(among, i)
	}
	at := instant(time.Unix(1, 0))
	for step := range 50_000 {
		at += int64(r.ExpFloat64() * float64(time.Millisecond))
		if r.IntN(2_000) == 0 {
			at += int64(r.Float64() * 2 * float64(averageSpan))
		}
		i := r.IntN(loops)
		d := &of[i].clients
		if n := len(placed[i]); n > 0 && r.IntN(20) < n {
			d.give(placed[i][n-1], at, .001)
			placed[i] = placed[i][:n-1]
		} else {
			c := (step/5_000*40 + r.IntN(40)) % clients // others every 5,000 steps
			d.take(c, at)
			placed[i] = append(placed[i], c)
		}
		if r.IntN(20) > 0 {
			continue
		}
		d.weigh(at)
		total, count := 0., 0
		for c := range clients {
			mean := d.held(c).mean
			if d.means[c] != mean {
				t.Fatalf("step %d: got %v places of client %d, want %v", step, d.means[c], c, mean)
			}
			if mean > 0 {
				total, count = total+mean, count+1
			}
		}
		if d.total != total || d.count != count {
			t.Fatalf("step %d: got %v places of %d clients, want %v of %d", step, d.total, d.count, total, count)
		}
	}
	for i := range of {
		for _, c := range placed[i] {
			of[i].clients.give(c, at, .001)
		}
	}
	for i := range of {
		d, marked := &of[i].clients, 0
		d.weigh(at + 2*int64(averageSpan))
		for word := range d.shown.holders {
			marked += bits.OnesCount64(d.shown.holders[word].Load())
		}
		if marked != 0 {
			t.Errorf("loop %d: got %d clients to look at after a pause, want 0", i, marked)
		}
	}
}
