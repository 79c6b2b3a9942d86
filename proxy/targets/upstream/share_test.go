package upstream_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/timing/agenda"
	"weir/proxy/targets/upstream"
)

// A source is requests that have something in common.
type source struct {
	rate float64       // per second
	keys uint64        // how many keys they have
	rank int           // of their class
	mean time.Duration // of the time that they take
}

// An asker is a request of a source.
type asker struct {
	upstream.Waiter[*asker]
	from int
	on   *upstream.Queue[*asker] // of its loop
}

// wakeTime is how long it takes until a loop looks at its queue that another one has called.
const wakeTime = 100 * time.Microsecond

// share plays sources that share so many places on so many loops, for which 50 ms is a long
// wait, and returns how many requests of each are served per second. The first two seconds are not
// counted: at the start all places are free, and nobody has waited for long yet.
func share(seed uint64, places, loops int, sources []source) []float64 {
	const warm, length, wait = 2 * time.Second, 20 * time.Second, 50 * time.Millisecond
	r := rand.New(rand.NewPCG(seed, 1))
	var future agenda.Queue[time.Duration, func()]
	now, taken := time.Duration(0), 0
	among, queues := upstream.NewQueueSet(loops), make([]*upstream.Queue[*asker], loops)
	for i := range queues {
		queues[i] = upstream.NewQueue[*asker](4096, look(func() int { return places - taken }))
		queues[i].JoinSet(among, i)
	}
	open := func(int) bool { return true }
	served := make([]float64, len(sources))
	clock := func() time.Time { return time.Unix(1, 0).Add(now) }
	in := func(d float64, do func()) { future.Add(now+time.Duration(d), do) }
	var next func(l *upstream.Queue[*asker])
	var late func(a *asker)
	serve := func(a *asker) {
		taken++
		a.on.Take(clock(), &a.Waiter, usual)
		if now >= warm {
			served[a.from]++
		}
		in(r.ExpFloat64()*float64(sources[a.from].mean), func() {
			taken--
			a.on.Give(clock(), &a.Waiter)
			next(a.on)
		})
	}
	next = func(l *upstream.Queue[*asker]) {
		for rank := l.Rank(); taken < places; rank = l.Rank() {
			if rival := l.Rival(rank, open); rival >= 0 {
				in(float64(wakeTime), func() { next(queues[rival]) })
				return
			}
			w := l.Next(clock())
			if w == nil {
				return
			}
			serve(w.Value)
		}
	}
	late = func(a *asker) {
		if !a.Waiting() {
			return
		}
		if until, ok := a.on.Late(clock(), &a.Waiter, wait); ok {
			in(float64(until.Sub(clock())), func() { late(a) })
		}
	}
	var arrive func(from int)
	arrive = func(from int) {
		s := &sources[from]
		a := &asker{from: from, on: queues[r.IntN(loops)]}
		a.Value = a
		a.SetHashes(uint64(from)<<6+r.Uint64N(s.keys), 0, 0)
		a.Ranked(s.rank)
		if taken < places && a.on.Rival(s.rank, open) < 0 && a.on.Admits(clock(), &a.Waiter) {
			serve(a)
		} else if a.on.Join(clock(), &a.Waiter) == nil {
			a.on.Publish()
			in(float64(wait), func() { late(a) })
		}
		in(r.ExpFloat64()/s.rate*float64(time.Second), func() { arrive(from) })
	}
	for i := range sources {
		if sources[i].rate > 0 {
			arrive(i)
		}
	}
	for now < length {
		at, do := future.Next()
		now = at
		do()
	}
	for i := range served {
		served[i] /= (length - warm).Seconds()
	}
	return served
}

const ms = time.Millisecond

// shares is share, on average over some seeds.
func shares(sources ...source) []float64 { return sharesOf(1, sources...) }

// sharesOf is the same on so many loops.
func sharesOf(loops int, sources ...source) []float64 {
	const seeds = 6
	mean := make([]float64, len(sources))
	for seed := range uint64(seeds) {
		for i, n := range share(seed, 15, loops, sources) {
			mean[i] += n / seeds
		}
	}
	return mean
}

// One key whose requests take fifty times as long, and are a tenth to four fifths of all,
// leaves the others nearly all that they would have without it, however busy they are.
func TestSlowKey(t *testing.T) {
	for _, rate := range []float64{900, 1350, 2000} {
		others := source{rate, 50, 0, 10 * ms}
		alone := shares(others)[0]
		for _, part := range []float64{.1, .8} {
			got := shares(others, source{rate * part / (1 - part), 1, 0, 500 * ms})
			if got[0] < .95*alone {
				t.Errorf("%.0f a second, and %.1f of all are slow: %.0f are served, %.0f would be", rate, part, got[0], alone)
			}
		}
	}
}

// A key that asks for a hundred times as much as the others gets no more than one that
// asks for as much as it could get.
func TestInsistentKey(t *testing.T) {
	crowd := source{2000, 20, 0, 10 * ms}
	modest := shares(crowd, source{100, 1, 0, 10 * ms})
	greedy := shares(crowd, source{10_000, 1, 0, 10 * ms})
	if greedy[1] > 1.1*modest[1] || greedy[0] < .98*modest[0] {
		t.Errorf("asking for 10000 a second a key gets %.0f and the others %.0f, asking for 100 it "+
			"gets %.0f and they %.0f", greedy[1], greedy[0], modest[1], modest[0])
	}
}

// The lowest class is shed first, however few of a higher one there are, and whichever loops
// they come to.
func TestClasses(t *testing.T) {
	for _, loops := range []int{1, 4} {
		got := sharesOf(loops, source{300, 10, 0, 10 * ms}, source{900, 10, 1, 10 * ms}, source{1200, 10, 2, 10 * ms})
		if got[0] >= .98*300 && got[1] >= .98*900 && got[2] <= 320 && got[2] >= 200 {
			continue
		}
		t.Errorf("%d loops: of 1500 a second the highest class has %.0f of 300, the next %.0f of 900, the "+
			"lowest %.0f of 1200", loops, got[0], got[1], got[2])
	}
}

// Fairness costs almost no throughput: all places are used, whichever keys ask for them.
func TestPlacesAreUsed(t *testing.T) {
	for name, sources := range map[string][]source{
		"one key":               {{2000, 1, 0, 10 * ms}},
		"many keys":             {{2000, 50, 0, 10 * ms}},
		"two keys":              {{1000, 1, 0, 10 * ms}, {1000, 1, 0, 10 * ms}},
		"one large, many small": {{1200, 1, 0, 10 * ms}, {800, 50, 0, 10 * ms}},
	} {
		used := 0.0
		for i, n := range share(1, 15, 1, sources) {
			used += n * sources[i].mean.Seconds()
		}
		if used < .9*15 {
			t.Errorf("%s: %.1f of 15 places are taken", name, used)
		}
	}
}
