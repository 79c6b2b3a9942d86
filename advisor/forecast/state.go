package forecast

import (
	"fmt"
	"math"

	"weir/advisor/codec"
	"weir/advisor/series"
)

// stateWord and stateVersion are the header written by Encode. The version changes
// with every change of a walk.
const (
	stateWord    = "weir forecast"
	stateVersion = 10
)

// Encode encodes everything except the settings and the history.
func (f *Forecaster) Encode() []byte { return codec.Marshal(stateWord, stateVersion, f.walk) }

// Restore returns the encoded forecaster, with the history that it had then.
func Restore(s Settings, h *series.History, b []byte) (*Forecaster, error) {
	f := over(s, h)
	if err := codec.Unmarshal(b, stateWord, stateVersion, f.walk); err != nil {
		return nil, fmt.Errorf("read forecaster: %w", err)
	}
	return f, nil
}

func (f *Forecaster) walk(c *codec.Codec) {
	f.cal.walk(c)
	f.shifts.walk(c)
	c.Float(&f.mean, &f.meanN, &f.most, &f.now, &f.quiet)
	c.Int(&f.refused)
	dt := 0.0
	if f.eng != nil {
		dt = f.eng.dt
	}
	c.Float(&dt)
	if dt == 0 || !c.Require(dt >= 1e-3 && !math.IsInf(dt, 0)) {
		return
	}
	if c.Decoding {
		f.eng = newEngine(dt)
	}
	f.eng.walk(c)
}
