package upstream

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// shareClients and shareRoutes are how many clients, by hash, and routes, by number, a Queue
	// distinguishes. Clients with the same hash are treated as one.
	shareClients, shareRoutes = 512, 256
	// shareKeys is how many keys a Queue knows, all clients together.
	shareKeys = 256
	// averageSpan is the time over which places are averaged, and for which places are
	// reserved against greedy keys.
	averageSpan = 3 * time.Second
	// busyMemory is for how long the number of places at which a target was busy bounds what those
	// who hold places for long may have.
	busyMemory = time.Minute
	// busyRelax is the factor by which that bound grows every shareInterval.
	busyRelax = 1.005
	// shareInterval is the interval at which averages are summed up.
	shareInterval = 100 * time.Millisecond
	// holdingAge is how old the averages that other loops read may be, in nanoseconds.
	holdingAge = int64(time.Millisecond)
	// shareLeast is an average of places below which there is nothing to reserve.
	shareLeast = 1. / 64
	// divisionSlows is the factor by which what is usual grows at most every shareInterval.
	divisionSlows = 1.02
	// slowFactor is the multiple of what is usual from which a client or a route holds places for
	// long.
	slowFactor = 3
)

// places are the places of a client, a route or a key on one loop.
type places struct {
	n    int32
	long int32   // of these, how many are held for long, see Queue.Lengthen
	mean float32 // recent average of the others: those cost a target that is not busy nothing
	done float32 // how many were given back recently,
	due  float32 // and how many seconds requests of their kinds usually take
	at   int64   // time of these three, see instant
}

// instant is a time in nanoseconds. Every request takes and gives back a place, and a
// number is cheaper to keep and to compare than a time.Time.
func instant(t time.Time) int64 { return t.UnixNano() }

// pass lets the averages follow the time.
func (p *places) pass(at int64) {
	mean, fade := p.lately(at)
	p.mean, p.done, p.due, p.at = mean, p.done*fade, p.due*fade, at
}

// give gives a place back that was held by a request of a kind that usually takes so many seconds.
func (p *places) give(at int64, usual float32) {
	p.pass(at)
	p.n--
	p.done++
	p.due += usual
}

// lately returns the recent average of the places, and the part that remains of sums: what
// happened longer ago counts less, so that a sum is averageSpan times the rate.
func (p *places) lately(at int64) (mean, fade float32) {
	since := at - p.at
	if since >= int64(averageSpan) || since < 0 { // the clock was set back: the average starts again
		return float32(p.n - p.long), 0
	}
	part := float32(since) * (1 / float32(averageSpan))
	return p.mean + (float32(p.n-p.long)-p.mean)*part, 1 - part
}

// most returns the places now or recently, whichever are more.
func (p *places) most(at int64) float32 {
	mean, _ := p.lately(at)
	return max(float32(p.n), mean)
}

// A holding is the places of a client or a route on one loop, as other loops read them.
type holding struct {
	now    atomic.Uint64 // n and long, as 16 bits, and done
	lately atomic.Uint64 // mean and due
	at     atomic.Int64  // see instant; a loop without requests does not refresh what it shows
}

// holdings are those of all clients, or of all routes, on one loop.
type holdings struct {
	of      []holding
	holders []atomic.Uint64 // a bit for each client or route that has places, or had some recently
}

// store publishes the current values of i to other loops, and its averages only if the published ones are
// at least holdingAge old: every request stores twice, and an atomic store costs as much as the rest of a
// division.
func (hs *holdings) store(i int, p *places) {
	h := &hs.of[i]
	h.now.Store(uint64(uint16(p.n))<<48 | uint64(uint16(p.long))<<32 | uint64(math.Float32bits(p.done)))
	if since := p.at - h.at.Load(); since >= 0 && since < holdingAge {
		return
	}
	h.lately.Store(uint64(math.Float32bits(p.mean))<<32 | uint64(math.Float32bits(p.due)))
	h.at.Store(p.at)
	if word, bit := &hs.holders[i/64], uint64(1)<<(i%64); word.Load()&bit == 0 {
		word.Or(bit)
	}
}

// load returns what was stored, as of an instant.
func (h *holding) load(at int64) (p places) {
	p.at = h.at.Load()
	if p.at == 0 {
		return p // nothing yet
	}
	now, lately := h.now.Load(), h.lately.Load()
	p.n, p.long = int32(uint16(now>>48)), int32(uint16(now>>32))
	p.done = math.Float32frombits(uint32(now))
	p.mean, p.due = math.Float32frombits(uint32(lately>>32)), math.Float32frombits(uint32(lately))
	if since := at - p.at; since > 0 || since < -2*int64(shareInterval) { // later, or the clock was set back
		p.pass(at)
	}
	return p
}

// A held is the sum of the holdings of all loops.
type held struct{ n, long, mean, done, due float64 }

func (h *held) add(p places) {
	h.n += float64(p.n)
	h.long += float64(p.long)
	h.done += float64(p.done)
	h.mean += float64(p.mean)
	h.due += float64(p.due)
}

// slowness returns how long places are held, by Little's law, relative to the time that is usual for
// the kinds of requests, and as much again as all usually take: even a short one may wait in the
// target behind others. It is infinite if none was given back whose usual time is known.
func (h *held) slowness(all float64) float64 {
	if h.due <= 0 {
		return math.Inf(1)
	}
	return h.mean * averageSpan.Seconds() / (h.due + h.done*all)
}

// regular reports whether there was more than one place, or one for long. Clients and keys that
// are used once say nothing about what others usually have.
func (h *held) regular() bool { return h.done >= 1.5 || h.mean >= .5 }

// An average is that of the places of several clients or keys.
type average struct {
	sum   float64
	count int
}

func (a *average) add(mean float64) {
	a.sum += mean
	a.count++
}

// greedy returns from how many places on one of them has clearly more than the average.
func (a *average) greedy() float32 {
	if a.count <= 1 { // there is no other to compare with
		return math.MaxFloat32
	}
	return queueGreed * float32(a.sum/float64(a.count))
}

// usual returns the average if there were one more, without places, and at least 1.
func (a *average) usual() float32 { return max(1, float32(a.sum/float64(a.count+1))) }

// A division is how the places are divided among clients, or among routes.
type division struct {
	own     []places   // of this loop, by client or route
	shown   *holdings  // the same, for other loops
	loops   []holdings // shown of each loop
	total   float64    // average places of all
	count   int        // how many have any, now or lately
	regular average    // of those that are regular
	at      int64      // of the last weigh
	takes   float64    // how long requests usually take, in seconds
	usual   float64    // slowness: the median of those; 0: unknown
	each    []float64  // scratch of weigh
	means   []float64  // by client or route, as of then
}

// newDivision returns the division whose holdings of one loop are shown to the others.
func newDivision(loops []holdings, loop int) division {
	n := len(loops[loop].of)
	return division{own: make([]places, n), shown: &loops[loop], loops: loops, means: make([]float64, n)}
}

// take records that i has one more place.
func (d *division) take(i int, at int64) {
	p := &d.own[i]
	p.pass(at)
	p.n++
	d.shown.store(i, p)
}

// give records that i has one less, see places.give.
func (d *division) give(i int, at int64, usual float32) {
	p := &d.own[i]
	p.give(at, usual)
	d.shown.store(i, p)
}

// lengthen records that n more places of i are held for long.
func (d *division) lengthen(i int, n int32) {
	p := &d.own[i]
	p.long += n
	d.shown.store(i, p)
}

// weigh sums up the averages of all loops.
func (d *division) weigh(at int64) {
	before := d.usual
	d.at, d.total, d.count, d.regular, d.usual, d.each = at, 0, 0, average{}, 0, d.each[:0]
	clear(d.means)
	var all held
	for word := range d.shown.holders {
		for left := d.holders(word); left != 0; left &= left - 1 {
			i := 64*word + bits.TrailingZeros64(left)
			h := d.held(i)
			if d.means[i] = h.mean; h.mean <= 0 {
				d.forget(i)
				continue
			}
			d.total += h.mean
			d.count++
			all.done += h.done
			all.due += h.due
			if h.regular() {
				d.regular.add(h.mean)
			}
			if h.due > 0 {
				d.each = append(d.each, h.slowness(d.takes))
			}
		}
	}
	if d.takes = 0; all.done > 0 {
		d.takes = all.due / all.done
	}
	if n := len(d.each); n > 0 {
		slices.Sort(d.each)
		d.usual = d.each[(n-1)/2]
		if before > 0 { // when the target is full of slow requests, all are slow
			d.usual = min(d.usual, divisionSlows*before)
		}
	}
}

// holders returns the bits of 64 clients or routes on all loops. Most are 0.
func (d *division) holders(word int) (all uint64) {
	for i := range d.loops {
		all |= d.loops[i].holders[word].Load()
	}
	return all
}

// forget clears the bit of i if i has had no place on this loop for averageSpan. Its next place sets the bit
// again, because the stored averages are then older than holdingAge.
func (d *division) forget(i int) {
	if p := &d.own[i]; p.n == 0 && d.at-p.at >= int64(averageSpan) {
		d.shown.holders[i/64].And(^(1 << (i % 64)))
	}
}

// held returns the places of i on all loops, with averages as of the last weigh.
func (d *division) held(i int) (h held) {
	for l := range d.loops {
		h.add(d.loops[l].of[i].load(d.at))
	}
	return h
}

// alone reports whether there is nobody else to reserve places for, as far as is known.
func (d *division) alone(i int) bool {
	return d.usual == 0 || d.total-d.means[i] < shareLeast
}

// A room is how many requests the targets can work on, as far as is known: the places less their
// square root, by which a limit exceeds that number.
type room struct {
	places float64
	busy   bool // requests waited at a target recently
}

// admits reports whether i may have one more place. If it holds places for longer than others do,
// or nothing is known of it, it may have an equal part of the room, and beyond that what the others
// are unlikely to need: more than twice the root above their average, as the number in use varies
// at random by about the root. So these places are free when the others ask for them. Places that
// are held for no longer than usual need not be reserved: the next one is soon given back. Unless
// the target is busy, those that are held for much longer than usual do not count: then they cost
// the others nothing.
func (d *division) admits(i int, in room) bool {
	if d.alone(i) {
		return true
	}
	others := d.total - d.means[i]
	h := d.held(i)
	if h.slowness(d.takes) <= slowFactor*max(1, d.usual) {
		return true
	}
	has := h.n
	if !in.busy {
		has -= h.long
	}
	equal := in.places / float64(d.count)
	if has+1 <= max(equal, in.places-others-queueSpare*math.Sqrt(others)) {
		return true
	}
	return has < 1 && h.mean < equal // a part of a place: one now and then
}

// A known key had a place before, and not long ago.
type known struct {
	places
	mark   uint32 // see who; 0: none
	client uint16
}

// keys are the places of the keys that a Queue knows. A key becomes known when it gets a place,
// unless another key has its entry and needs it. So keys that are used only once do not
// count as keys with few places: clients make as many of them as they like.
type keys struct {
	known [shareKeys]known
	of    [shareClients]average // of a client's regular keys, as of the last weigh
}

// stranger stands for every key that is not known, and for requests without a key.
const stranger = -1

// find returns the number of a key, or stranger.
func (k *keys) find(mark uint32) int {
	if i := int(mark % shareKeys); mark != 0 && k.known[i].mark == mark {
		return i
	}
	return stranger
}

// take records that a key of a client gets a place, and returns its number.
func (k *keys) take(at int64, mark uint32, client uint16) int {
	if mark == 0 {
		return stranger
	}
	i := int(mark % shareKeys)
	of := &k.known[i]
	if of.mark != mark {
		if mean, _ := of.lately(at); of.n > 0 || mean >= shareLeast {
			return stranger
		}
		*of = known{mark: mark, client: client}
	}
	of.pass(at)
	of.n++
	return i
}

// give records that a key gives a place back.
func (k *keys) give(at int64, i int, usual float32) {
	if i != stranger {
		k.known[i].give(at, usual)
	}
}

// weigh sums up the averages of the keys of each client.
func (k *keys) weigh(at int64) {
	clear(k.of[:])
	for i := range k.known {
		of := &k.known[i]
		if of.mark == 0 {
			continue
		}
		mean, fade := of.lately(at)
		if h := (held{mean: float64(mean), done: float64(of.done * fade)}); mean > 0 && h.regular() {
			k.of[of.client].add(h.mean)
		}
	}
}
