package season

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	codecVersion = 1
	listMax      = 1024 // values of a list in a file
)

// MarshalBinary returns the model without its settings: of the location only the
// name, of the events only what was learned by name.
func (m *Model) MarshalBinary() ([]byte, error) {
	b := []byte{codecVersion}
	b = appendText(b, m.location().String())
	for _, n := range []int{m.blocks.Hour, m.blocks.Day, m.blocks.Week, m.blocks.Weekend, m.blocks.Year} {
		b = append(b, byte(n))
	}
	b = appendList(b, []float64{m.step, m.offset, m.first, m.span, m.noise, m.scale, m.level})
	for _, list := range [][]float64{m.pieces, m.hourly, m.daily, m.weekly, m.weekend, m.yearly, m.kappa} {
		b = appendList(b, list)
	}
	for _, l := range m.lines {
		b = appendList(b, []float64{l.level, l.slope})
	}
	for _, name := range m.names {
		b = appendText(b, name)
	}
	return b, nil
}

// UnmarshalBinary is Restore with the settings that m has; those of a new Model
// are UTC without events.
func (m *Model) UnmarshalBinary(b []byte) error {
	restored, err := restore(b, m.location(), m.events, m.names)
	if err != nil {
		return err
	}
	*m = *restored
	return nil
}

// Restore returns the model that MarshalBinary wrote. Its location must be that of
// s; events of s whose names the model does not know do nothing.
func Restore(b []byte, s Settings) (*Model, error) {
	m := new(Model)
	if err := m.setSettings(s); err != nil {
		return nil, err
	}
	return restore(b, m.location(), m.events, m.names)
}

// location returns whose clock the model follows.
func (m *Model) location() *time.Location {
	if m.clock.location == nil {
		return time.UTC
	}
	return m.clock.location
}

func restore(b []byte, location *time.Location, events calendar, names []string) (*Model, error) {
	r := reader{b: b}
	if v := r.byte(); r.err == nil && v != codecVersion {
		return nil, fmt.Errorf("season: model of version %d, must be %d", v, codecVersion)
	}
	if name := r.text(); r.err == nil && name != location.String() {
		return nil, fmt.Errorf("season: model was learned by the clock of %q, settings say %q", name, location)
	}
	m := &Model{clock: clock{location}, events: events, names: names}
	for _, n := range []*int{&m.blocks.Hour, &m.blocks.Day, &m.blocks.Week, &m.blocks.Weekend, &m.blocks.Year} {
		*n = int(r.byte())
	}
	head := r.list(7)
	var kappa []float64
	m.pieces = r.list(-1)
	m.hourly, m.daily = r.list(2*m.blocks.Hour), r.list(2*m.blocks.Day)
	m.weekly, m.weekend = r.list(2*m.blocks.Week), r.list(2*m.blocks.Weekend)
	m.yearly, kappa = r.list(2*m.blocks.Year), r.list(-1)
	for range m.pieces {
		if l := r.list(2); r.err == nil {
			m.lines = append(m.lines, line{l[0], l[1]})
		}
	}
	known := make(map[string]float64)
	for _, k := range kappa {
		known[r.text()] = k
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = errShape
	}
	if r.err == nil && (!(head[0] > 0) || !(head[1] > 0) || !(head[3] >= 0) || len(m.pieces) == 0) {
		r.err = errShape
	}
	if r.err != nil {
		return nil, r.err
	}
	m.step, m.offset, m.first, m.span = head[0], head[1], head[2], head[3]
	m.noise, m.scale, m.level = head[4], head[5], head[6]
	for _, name := range names {
		m.kappa = append(m.kappa, known[name])
	}
	return m, nil
}

var errShape = errors.New("season: not a model: cut short, or damaged")

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendList(b []byte, list []float64) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, v := range list {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// reader takes values off the front of b. After the first error all are zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.b)) {
		r.b, r.err = nil, errShape
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) length() uint64 {
	n, used := binary.Uvarint(r.b)
	if used <= 0 || n > listMax {
		r.take(math.MaxUint64)
		return 0
	}
	r.b = r.b[used:]
	return n
}

func (r *reader) text() string { return string(r.take(r.length())) }

// list returns the next list, which must have n finite values; -1: any number.
func (r *reader) list(n int) []float64 {
	length := r.length()
	if n >= 0 && length != uint64(n) {
		r.take(math.MaxUint64)
	}
	b := r.take(8 * length)
	if r.err != nil {
		return make([]float64, max(0, n))
	}
	list := make([]float64, length)
	for i := range list {
		list[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		if math.IsNaN(list[i]) || math.IsInf(list[i], 0) {
			r.take(math.MaxUint64)
		}
	}
	return list
}
