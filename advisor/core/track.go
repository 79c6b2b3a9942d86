package core

import (
	"slices"
	"time"

	"weir/advisor/codec"
)

// SlotValues are values of a slot of time for display. NaN is unknown.
type SlotValues struct {
	At     int64 // start of the slot, in seconds since 1970
	N      float32
	Values [valuesN]float32
}

// The values of a mark: means over the slot, except for the limits, which are the newest.
const (
	ObservedValue = iota
	ForwardedValue
	LimitValue       // in force, permits per second
	RecommendedValue // permits per second
	LowValue         // 20 % quantile of the capacity
	MidValue         // 50 %
	HighValue        // 80 %
	P95Value         // seconds
	ErrorsValue      // share

	valuesN = iota
)

// A row has the newest marks of one width, in order.
type row struct {
	width  int64 // of a slot, in seconds
	size   int   // marks that are kept
	points []SlotValues
}

// add adds values at a time, to the newest slot or to a new one.
func (r *row) add(at int64, vals *[valuesN]float32) {
	slot := at - 1 - (at-1)%r.width // a value belongs to the time before it
	if n := len(r.points); n > 0 && r.points[n-1].At == slot {
		r.points[n-1].join(vals)
		return
	}
	r.points = forget(append(r.points, SlotValues{At: slot, N: 1, Values: *vals}), r.size)
}

// join adds further values of the slot.
func (s *SlotValues) join(vals *[valuesN]float32) {
	s.N++
	for i, v := range vals {
		old := s.Values[i]
		if i == LimitValue || i == RecommendedValue || old != old {
			s.Values[i] = v
		} else if v == v {
			s.Values[i] = old + (v-old)/s.N
		}
	}
}

// since returns a copy of the marks whose slots begin at the given time or later.
func (r *row) since(at int64) []SlotValues {
	return slices.DeleteFunc(slices.Clone(r.points), func(m SlotValues) bool { return m.At < at })
}

// A track is the history of limits and capacity for display: by the minute for a day and
// by quarters of an hour for five weeks.
//
// Owned by its Core.
type track struct{ minutes, quarters row }

func newTrack() *track {
	return &track{minutes: row{width: 60, size: 24 * 60}, quarters: row{width: 900, size: 35 * 96}}
}

// add adds values at a time.
func (t *track) add(at time.Time, vals *[valuesN]float32) {
	t.minutes.add(at.Unix(), vals)
	t.quarters.add(at.Unix(), vals)
}

// since returns the marks from the given time on, at the finest resolution that goes back
// that far.
func (t *track) since(at time.Time) []SlotValues {
	fine := t.minutes.since(at.Unix())
	if len(fine) > 0 && len(t.minutes.points) == t.minutes.size && fine[0].At-60 > at.Unix() {
		return t.quarters.since(at.Unix())
	}
	return fine
}

const trackVersion = 2

// walk passes the marks to c.
func (t *track) walk(c *codec.Codec) {
	for _, r := range []*row{&t.minutes, &t.quarters} {
		if n := c.Len(len(r.points), r.size); c.Decoding {
			r.points = make([]SlotValues, n)
		}
		for i := range r.points {
			m := &r.points[i]
			c.Int64(&m.At)
			c.Float32(&m.N)
			for j := range m.Values {
				c.Float32(&m.Values[j])
			}
		}
	}
}

// encode encodes the track.
func (t *track) encode() []byte { return codec.Marshal(partTrack, trackVersion, t.walk) }

// decodeTrack decodes the bytes of encode.
func decodeTrack(b []byte) (*track, error) {
	t := newTrack()
	return t, codec.Unmarshal(b, partTrack, trackVersion, t.walk)
}
