package serve

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// A mark is what a track keeps of a slot of time. NaN is unknown.
type mark struct {
	at   int64 // start of the slot, in seconds since 1970
	n    float32
	vals [valuesN]float32
}

// The values of a mark: means over the slot, but the limits are the newest.
const (
	valObserved = iota
	valForwarded
	valLimit       // in force, permits per second
	valRecommended // permits per second
	valLow         // 20 % quantile of the capacity
	valMid         // 50 %
	valHigh        // 80 %
	valP95         // seconds
	valErrors      // share

	valuesN = iota
)

// A ring of marks, the oldest first at next once it is full.
type ring struct {
	width int64 // of a slot, in seconds
	size  int
	marks []mark
	next  int
}

// add adds values at a moment, to the newest slot or to a new one.
func (r *ring) add(at int64, vals *[valuesN]float32) {
	slot := at - 1 - (at-1)%r.width // a value belongs to the time before it
	if n := len(r.marks); n > 0 {
		last := &r.marks[(r.next+n-1)%n]
		if last.at == slot {
			last.join(vals)
			return
		}
	}
	m := mark{at: slot, n: 1, vals: *vals}
	if len(r.marks) < r.size {
		r.marks = append(r.marks, m)
		return
	}
	r.marks[r.next] = m
	r.next = (r.next + 1) % r.size
}

// join takes in more values of the slot.
func (m *mark) join(vals *[valuesN]float32) {
	m.n++
	for i, v := range vals {
		old := m.vals[i]
		if i == valLimit || i == valRecommended || old != old {
			m.vals[i] = v
		} else if v == v {
			m.vals[i] = old + (v-old)/m.n
		}
	}
}

// since are the marks whose slots begin at a moment or later, the oldest first.
func (r *ring) since(at int64) []mark {
	marks := make([]mark, 0, len(r.marks))
	for i := range r.marks {
		if m := r.marks[(r.next+i)%len(r.marks)]; m.at >= at {
			marks = append(marks, m)
		}
	}
	return marks
}

// A track is the course of limits and capacity, for people: by the minute for a
// day and by the quarter of an hour for five weeks.
//
// Owned by the core.
type track struct{ minutes, quarters ring }

func newTrack() *track {
	return &track{minutes: ring{width: 60, size: 24 * 60}, quarters: ring{width: 900, size: 35 * 96}}
}

// add adds values at a moment.
func (t *track) add(at time.Time, vals *[valuesN]float32) {
	t.minutes.add(at.Unix(), vals)
	t.quarters.add(at.Unix(), vals)
}

// since are the marks from a moment on, as fine as they go back so far.
func (t *track) since(at time.Time) []mark {
	fine := t.minutes.since(at.Unix())
	if len(fine) > 0 && len(t.minutes.marks) == t.minutes.size && fine[0].at-60 > at.Unix() {
		return t.quarters.since(at.Unix())
	}
	return fine
}

const trackVersion = 1

// encode writes the track.
func (t *track) encode() []byte {
	out := []byte{trackVersion}
	for _, r := range []*ring{&t.minutes, &t.quarters} {
		marks := r.since(math.MinInt64)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(marks)))
		for _, m := range marks {
			out = binary.LittleEndian.AppendUint64(out, uint64(m.at))
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(m.n))
			for _, v := range m.vals {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			}
		}
	}
	return out
}

var errTrack = errors.New("not a track of this version")

// decodeTrack reads what encode wrote.
func decodeTrack(b []byte) (*track, error) {
	t := newTrack()
	if len(b) == 0 || b[0] != trackVersion {
		return nil, errTrack
	}
	b = b[1:]
	const bytes = 8 + 4 + 4*valuesN
	for _, r := range []*ring{&t.minutes, &t.quarters} {
		if len(b) < 4 {
			return nil, errTrack
		}
		n := int(binary.LittleEndian.Uint32(b))
		b = b[4:]
		if n > r.size || len(b) < n*bytes {
			return nil, errTrack
		}
		for range n {
			m := mark{at: int64(binary.LittleEndian.Uint64(b)), n: math.Float32frombits(binary.LittleEndian.Uint32(b[8:]))}
			for i := range m.vals {
				m.vals[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[12+4*i:]))
			}
			r.marks = append(r.marks, m)
			b = b[bytes:]
		}
	}
	if len(b) > 0 {
		return nil, errTrack
	}
	return t, nil
}
