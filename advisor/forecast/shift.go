package forecast

import (
	"math"
	"weir/advisor/codec"
)

const (
	shiftDrift = .5 // standard deviations that are no sign of a shift
	shiftAlarm = 5.0
	shiftClip  = 3.0   // one slot alone is no shift
	shiftPause = 600.0 // seconds between alarms
	widenBy    = 1.5   // errors after an alarm are expected to be so much larger
)

// A detector watches whether the rate leaves the forecasts of one step on one side
// for longer than chance would: a two-sided CUSUM of errors in standard deviations.
type detector struct {
	above, below float64
	last         float64 // when it last gave alarm, seconds; 0: never
	up           bool
}

// learn takes in an error in standard deviations and says whether it gives alarm.
func (d *detector) learn(at, x float64) bool {
	x = min(max(x, -shiftClip), shiftClip)
	d.above = max(0, d.above+x-shiftDrift)
	d.below = max(0, d.below-x-shiftDrift)
	if d.above < shiftAlarm && d.below < shiftAlarm {
		return false
	}
	up := d.above >= shiftAlarm
	d.above, d.below = 0, 0
	if d.last != 0 && at-d.last < shiftPause {
		return false
	}
	d.last, d.up = at, up
	return true
}

func (d *detector) walk(c *codec.Codec) {
	c.Float(&d.above, &d.below, &d.last)
	c.Bool(&d.up)
}

// deviation is the standard deviation that goes with a mean absolute error, as for
// errors with a normal distribution.
func deviation(mean float64) float64 { return mean * math.Sqrt(math.Pi/2) }
