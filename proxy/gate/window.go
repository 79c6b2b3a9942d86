package gate

import (
	"math"
	"time"
)

const (
	// windowMin is the least number of answers that are judged together, and spanMin
	// the least time in which they must have come: below, one batch or one pause of
	// the target's runtime would look like a trend.
	windowMin = 20
	spanMin   = 100 * time.Millisecond
	// spanShort is the same during a look at the target.
	spanShort = 20 * time.Millisecond
	// firstMin is how many answers say for the first time what calm is. Only requests
	// count that were sent with firstFew or fewer in flight, as others may have waited;
	// after firstMax all do. After firstTimes times what these
	// took, about as many are in flight as usual: the first answers are the fast ones.
	firstFew, firstMin, firstMax = 10, 8, time.Second
	firstTimes                   = 4
	// A window with longMin answers, or of spanMax, is judged also when what it says
	// lies within the noise.
	longMin = 200
	spanMax = 500 * time.Millisecond
)

// The buckets of a window have the exponent and the three highest bits of the
// mantissa of a float64 in common: eight for each doubling, from about a microsecond
// to about an hour.
const (
	bucketBits = 52 - 3
	bucketMin  = (1023 + 10) << 3 // 2^10 ns
	buckets    = 256
)

// A window is what the answers say that came since the limit was moved last.
type window struct {
	since    time.Time     // before, answers tell of the limit that was; they do not count
	few      int           // answers to requests sent with more in flight do not count, 0: all do,
	until    time.Time     // until then
	settle   time.Duration // to be ignored after the first that counts
	read     int           // goods that have been read
	n, goods int           // answers, and those that were no refusals
	full     int           // sent while the gate bound
	peak     int           // most in flight
	inFlight int           // summed over the answers
	sum      float64       // of the answer times, ns
	counts   [buckets]uint32
	least    int           // bucket that is not empty
	next     int           // answers at which to judge
	takes    time.Duration // the first one, at the least; 0: unknown
}

func (w *window) reset(now time.Time) { *w = window{since: now, next: windowMin, least: buckets - 1} }

// stale reports whether an answer says nothing of the limit in force, because its request
// was sent with more in flight.
func (w *window) stale(at time.Time, a *Answer) bool {
	return w.few > 0 && a.InFlight > w.few && !a.Refused && at.Before(w.until)
}

// add counts an answer time in ns.
func (w *window) add(ns float64) {
	w.goods++
	w.sum += ns
	i := max(0, min(int(math.Float64bits(ns)>>bucketBits)-bucketMin, buckets-1))
	w.least = min(w.least, i)
	w.counts[i]++
}

// A shape is how answer times are spread, in ns: the tenth, the fiftieth and the
// seventy-fifth percentile, and the mean. The tenth is where waiting shows best; the
// seventy-fifth is as high as one can go without meeting the few slow routes that
// most services have.
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

// bucketStart is the shortest time of bucket i, in ns.
func bucketStart(i int) float64 {
	return math.Float64frombits(uint64(i+bucketMin) << bucketBits)
}

// wide reports whether answer times vary enough to tell waiting from slowness.
func (s *shape) wide() bool { return s.high-s.low > .4*s.mid }

// toward moves s by a share of the way to o.
func (s *shape) toward(o *shape, share float64) {
	s.low += (o.low - s.low) * share
	s.mid += (o.mid - s.mid) * share
	s.high += (o.high - s.high) * share
	s.mean += (o.mean - s.mean) * share
}
