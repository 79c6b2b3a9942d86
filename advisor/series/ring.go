package series

import (
	"math"
	"time"
)

// A Resolution is one of the widths at which a history is kept.
type Resolution int

const (
	Minute      Resolution = iota // buckets of a minute, two days
	FiveMinutes                   // buckets of five minutes, five weeks
	Hour                          // buckets of an hour, thirteen months
)

// resolutions holds width and length of each.
var resolutions = [...]struct {
	width   time.Duration
	buckets int
}{
	Minute:      {time.Minute, 48 * 60},
	FiveMinutes: {5 * time.Minute, 35 * 288},
	Hour:        {time.Hour, 400 * 24},
}

// Width returns the width of a bucket.
func (r Resolution) Width() time.Duration { return resolutions[r].width }

// Span returns how far back buckets are kept.
func (r Resolution) Span() time.Duration {
	return time.Duration(resolutions[r].buckets) * resolutions[r].width
}

// A ring has the newest buckets of one width. Bucket i is stored at i modulo the ring's
// length; buckets outside (newest-length, newest] are dropped.
type ring struct {
	width   float64 // seconds
	newest  int64   // number of the newest bucket
	oldest  int64   // number of the first bucket ever filled, or of the oldest still kept
	mean    []float64
	covered []float32 // seconds of the bucket that the mean stands for; 0: a gap
}

func newRing(r Resolution) ring {
	n := resolutions[r].buckets
	return ring{
		width: r.Width().Seconds(), newest: math.MinInt64, oldest: math.MaxInt64,
		mean: make([]float64, n), covered: make([]float32, n),
	}
}

// number returns the bucket of an instant. An instant on a boundary belongs to the bucket
// that ends there.
func (r *ring) number(at float64) int64 { return int64(math.Ceil(at/r.width)) - 1 }

func (r *ring) slot(number int64) int {
	n := int64(len(r.mean))
	return int(((number % n) + n) % n)
}

// advance makes number the newest bucket and clears those in between.
func (r *ring) advance(number int64) {
	if r.newest == math.MinInt64 {
		r.newest, r.oldest = number, number
		return
	}
	n := int64(len(r.mean))
	for i := max(r.newest+1, number-n+1); i <= number; i++ {
		s := r.slot(i)
		r.mean[s], r.covered[s] = 0, 0
	}
	r.newest = max(r.newest, number)
	r.oldest = max(r.oldest, r.newest-n+1)
}

// add divides a mean rate over (from, to] among the buckets it overlaps.
func (r *ring) add(from, to, rate float64) {
	last := r.number(to)
	first := max(r.number(math.Nextafter(from, to)), last-int64(len(r.mean))+1)
	if first > r.newest || r.newest == math.MinInt64 {
		r.advance(first)
	}
	r.advance(last)
	for i := max(first, r.oldest); i <= last; i++ {
		start := float64(i) * r.width
		seconds := min(to, start+r.width) - max(from, start)
		if seconds <= 0 {
			continue
		}
		s := r.slot(i)
		had := float64(r.covered[s])
		r.mean[s] += (rate - r.mean[s]) * seconds / (had + seconds)
		r.covered[s] = float32(min(had+seconds, r.width))
	}
}

// at returns mean and covered seconds of a bucket, zero for a gap and for buckets that
// are not kept.
func (r *ring) at(number int64) (mean, covered float64) {
	if r.newest == math.MinInt64 || number < r.oldest || number > r.newest {
		return 0, 0
	}
	s := r.slot(number)
	return r.mean[s], float64(r.covered[s])
}

// over returns the mean over the known parts of (from, to], and for how many seconds it
// is known. A bucket counts by the part of it that lies in the span.
func (r *ring) over(from, to float64) (mean, covered float64) {
	if r.newest == math.MinInt64 || to <= from {
		return 0, 0
	}
	first := max(r.number(math.Nextafter(from, to)), r.oldest)
	last := min(r.number(to), r.newest)
	sum := 0.0
	for i := first; i <= last; i++ {
		m, c := r.at(i)
		if c == 0 {
			continue
		}
		start := float64(i) * r.width
		part := (min(to, start+r.width) - max(from, start)) / r.width
		sum += m * c * part
		covered += c * part
	}
	if covered <= 0 {
		return 0, 0
	}
	return sum / covered, covered
}
