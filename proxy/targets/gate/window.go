package gate

import (
	"math"
	"time"
)

const (
	// windowMin is the least number of answers that are judged together, and spanMin the
	// least time that they must span. In less, one batch or one pause of the target's runtime
	// would look like a trend.
	windowMin = 20
	spanMin   = 100 * time.Millisecond
	// spanShort replaces spanMin during a probe.
	spanShort = 20 * time.Millisecond
	// firstMin is how many answers are needed to learn for the first time what calm is. Only
	// requests that were sent with firstFew or fewer in flight count, as others may have
	// waited; after firstMax all do. The first answers are the fast ones: it takes firstTimes
	// times as long as they took until about as many are in flight as usual.
	firstFew, firstMin, firstMax = 10, 8, time.Second
	firstTimes                   = 4
	// A window with longMin answers, or of spanMax, is judged even if its result lies within
	// the noise.
	longMin = 200
	spanMax = 500 * time.Millisecond
	// A window begins anew if the number of answers above the median less that of those below
	// it is off by more than changedMost standard deviations. The variance of one answer is at
	// least changedLeast: where all times seemed the same, a few different ones are no change.
	changedMost, changedLeast = 3, .25
)

// The times in a bucket of a window have the exponent and the three highest bits of the
// mantissa of a float64 in common. So there are eight buckets for each doubling, from about
// a microsecond to about an hour.
const (
	bucketBits = 52 - 3
	bucketMin  = (1023 + 10) << 3 // 2^10 ns
	buckets    = 256
)

// A window sums up the answers since the limit was last moved.
type window struct {
	since    time.Duration // see slowdown.time; answers from before belong to the former limit and do not count
	few      int           // answers to requests sent with more in flight do not count,
	sent     time.Duration // nor to those sent before,
	until    time.Duration // until then
	settle   time.Duration // how long answers are ignored after the first that counts
	read     int           // goods at the last reading
	mid      int           // the bucket that has the median of those
	tilt     float64       // share of those in higher buckets less that in lower ones
	varies   float64       // variance of what one of them adds to that
	above    int           // answers after the last reading in higher buckets less those in lower ones
	n, goods int           // answers, and those that were no refusals
	full     int           // answers to requests sent while the gate bound
	peak     int           // most in flight
	inFlight int           // sum over the answers
	refused  int           // sum of the same over refusals
	sum      float64       // of the answer times, ns on the scale of the usual class
	took     float64       // of the same as they were
	counts   [buckets]uint32
	least    int           // lowest bucket that is not empty
	next     int           // number of answers at which to judge
	takes    time.Duration // least length of the first window; 0: unknown
	lost     time.Duration // length of the windows that were begun anew since the limit was last moved
}

func (w *window) reset(at time.Duration) {
	*w = window{since: at, sent: longAgo, until: longAgo, few: math.MaxInt, next: windowMin, least: buckets - 1}
}

// renew begins the window anew without a decision. Its length still counts towards spanMax:
// otherwise a queue whose answer times vary could put off the decision for ever. The limit has
// not been moved, so answers that did not count still do not.
func (w *window) renew(at time.Duration) {
	was := *w
	w.reset(at)
	w.sent, w.few, w.until, w.lost = was.sent, was.few, was.until, was.lost+at-was.since
}

// stale reports whether an answer says nothing about the limit in force, because its request
// was sent with more in flight or too early.
func (w *window) stale(at, sent time.Duration, a *Response) bool {
	return (a.InFlight > w.few || sent < w.sent) && !a.Refused && w.until-at > -a.Ago
}

// crowded reports whether clearly more were in flight when the refused requests were sent
// than when the others were: then the target refuses because there are too many. While the
// gate binds, the number in flight is the same for all, and crowded reports false.
func (w *window) crowded() bool {
	refused, goods := float64(w.n-w.goods), float64(w.goods)
	more := float64(w.refused)/refused - float64(w.inFlight-w.refused)/goods
	return more > 3*math.Sqrt(float64(w.inFlight)/float64(w.n)*(1/refused+1/goods))
}

// add counts an answer time in ns, on the scale of the usual class, and as it was.
func (w *window) add(ns, took float64) {
	w.goods++
	w.took += took
	w.sum += ns
	i := max(0, min(int(math.Float64bits(ns)>>bucketBits)-bucketMin, buckets-1))
	if i > w.mid {
		w.above++
	} else if i < w.mid {
		w.above--
	}
	w.least = min(w.least, i)
	w.counts[i]++
}

// A shape describes a distribution of answer times, in ns: the tenth, the fiftieth and the
// seventy-fifth percentile, and the mean. The tenth shows waiting best. The seventy-fifth is
// as high as possible without including the few slow routes that most services have.
type shape struct{ low, mid, high, mean float64 }

func (w *window) shape() shape {
	s := shape{mean: w.sum / float64(w.goods)}
	below, i := 0.0, w.least
	for _, q := range [...]struct {
		share float64
		to    *float64
	}{{.10, &s.low}, {.50, &s.mid}, {.75, &s.high}} {
		want := q.share * float64(w.goods)
		for i < buckets-1 && below+float64(w.counts[i]) <= want {
			below += float64(w.counts[i])
			i++
		}
		low, high := bucketStart(i), bucketStart(i+1)
		*q.to = low + (high-low)*(want-below)/float64(w.counts[i])
	}
	return s
}

// mark records that all answers have been read.
func (w *window) mark() {
	below := 0
	for w.mid = w.least; below+int(w.counts[w.mid]) <= w.goods/2; w.mid++ {
		below += int(w.counts[w.mid])
	}
	w.read, w.above = w.goods, 0
	same, n := int(w.counts[w.mid]), float64(w.goods)
	w.tilt = float64(w.goods-2*below-same) / n
	w.varies = max(changedLeast, float64(w.goods-same)/n-w.tilt*w.tilt)
}

// changed reports whether the answers after the last reading were clearly slower or faster
// than those before: then the window mixes two situations, and a growing queue looks like a
// slower target. Whole buckets are compared: where answer times hardly vary, all may be on one
// side of a median within its bucket.
func (w *window) changed() bool {
	since, read := float64(w.goods-w.read), w.read
	return read > 0 && math.Abs(float64(w.above)-w.tilt*since) > changedMost*math.Sqrt(w.varies*since)
}

// bucketStart returns the shortest time of bucket i, in ns.
func bucketStart(i int) float64 {
	return math.Float64frombits(uint64(i+bucketMin) << bucketBits)
}

// wide reports whether answer times vary enough to distinguish waiting from slowness.
func (s *shape) wide() bool { return s.high-s.low > .4*s.mid }

// toward moves s by a share of the way to o.
func (s *shape) toward(o *shape, share float64) {
	s.low += (o.low - s.low) * share
	s.mid += (o.mid - s.mid) * share
	s.high += (o.high - s.high) * share
	s.mean += (o.mean - s.mean) * share
}
