package forecast

import "weir/advisor/codec"

const (
	shiftDrift = .5 // standard deviations that do not indicate a shift
	shiftAlarm = 5.0
	shiftClip  = 3.0   // one slot alone is not a shift
	shiftPause = 600.0 // seconds between alarms
	widenBy    = 1.5   // factor on expected errors after an alarm
)

// A detector watches whether the rate stays on one side of the forecasts of one step for
// longer than chance would allow: a two-sided CUSUM of errors in standard deviations.
type detector struct {
	above, below float64
	last         float64 // time of the last alarm, seconds; 0: never
	up           bool
}

// learn updates with an error in standard deviations and reports whether it raises an
// alarm.
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
