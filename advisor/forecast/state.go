package forecast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"weir/advisor/series"
)

// stateMagic and stateVersion begin what MarshalBinary writes; a CRC-32 ends it. The
// version changes with everything that a walk passes.
const (
	stateMagic   = "weir forecast"
	stateVersion = 2
	historyMax   = 8 << 20 // bytes
)

// ErrState says that bytes are not the state of a forecaster.
var ErrState = errors.New("not a forecaster of this version")

// MarshalBinary writes everything but the settings.
func (f *Forecaster) MarshalBinary() ([]byte, error) {
	hist, err := f.hist.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("write forecaster: %w", err)
	}
	c := &codec{b: append([]byte(stateMagic), stateVersion)}
	c.bytes(&hist, historyMax)
	f.walk(c)
	return binary.LittleEndian.AppendUint32(c.b, crc32.ChecksumIEEE(c.b)), nil
}

// UnmarshalBinary makes f what was written, with the settings that f has. On an error
// ([ErrState]) f is as before.
func (f *Forecaster) UnmarshalBinary(b []byte) error {
	head := len(stateMagic) + 1
	if len(b) < head+4 || string(b[:head-1]) != stateMagic {
		return fmt.Errorf("read forecaster: %d bytes: %w", len(b), ErrState)
	}
	if v := b[head-1]; v != stateVersion {
		return fmt.Errorf("read forecaster: version %d, must be %d: %w", v, stateVersion, ErrState)
	}
	body := b[:len(b)-4]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return fmt.Errorf("read forecaster: the checksum is wrong: %w", ErrState)
	}
	c := &codec{reading: true, b: body[head:]}
	var hist []byte
	c.bytes(&hist, historyMax)
	h := series.New()
	if err := h.UnmarshalBinary(hist); err != nil {
		return fmt.Errorf("read forecaster: %w", err)
	}
	n := &Forecaster{set: f.set, hist: h, cal: newCalendar(f.set, h)}
	n.walk(c)
	if c.bad || len(c.b) > 0 {
		return fmt.Errorf("read forecaster: its length is wrong: %w", ErrState)
	}
	*f = *n
	return nil
}

func (f *Forecaster) walk(c *codec) {
	f.cal.walk(c)
	f.shifts.walk(c)
	c.f64(&f.mean, &f.meanN, &f.most, &f.now)
	c.int(&f.refused)
	dt := 0.0
	if f.eng != nil {
		dt = f.eng.dt
	}
	c.f64(&dt)
	if c.bad || dt == 0 {
		return
	}
	if c.reading {
		if !(dt >= 1e-3) || math.IsInf(dt, 0) {
			c.bad = true
			return
		}
		f.eng = newEngine(dt)
	}
	f.eng.walk(c)
}
