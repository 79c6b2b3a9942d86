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
	stateVersion = 5
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

// read checks the frame of what MarshalBinary wrote, in whatever version, and reads the
// history, with which all begin.
func read(b []byte) (version byte, h *series.History, rest *codec, err error) {
	head := len(stateMagic) + 1
	if len(b) < head+4 || string(b[:head-1]) != stateMagic {
		return stateVersion, nil, nil, fmt.Errorf("%d bytes: %w", len(b), ErrState)
	}
	version = b[head-1]
	body := b[:len(b)-4]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return version, nil, nil, fmt.Errorf("the checksum is wrong: %w", ErrState)
	}
	rest = &codec{reading: true, b: body[head:]}
	var hist []byte
	rest.bytes(&hist, historyMax)
	h = series.New()
	return version, h, rest, h.UnmarshalBinary(hist)
}

// Rates returns the history in what this version or another wrote.
func Rates(b []byte) (*series.History, error) {
	_, h, _, err := read(b)
	return h, err
}

// UnmarshalBinary makes f what was written, with the settings that f has. On an error
// ([ErrState]) f is as before.
func (f *Forecaster) UnmarshalBinary(b []byte) error {
	version, h, c, err := read(b)
	if version != stateVersion {
		err = fmt.Errorf("version %d, must be %d: %w", version, stateVersion, ErrState)
	}
	if err != nil {
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
	c.f64(&f.mean, &f.meanN, &f.most, &f.now, &f.quiet)
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
