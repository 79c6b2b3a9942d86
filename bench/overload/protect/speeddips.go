package protect

import "time"

// TargetSlowdowns are spans in which a target works at another speed, on what it has begun as well. They end
// each interval. Without them, Every is 0.
type TargetSlowdowns struct {
	Every, For time.Duration
	Speed      float64 // in a dip, relative to the speed otherwise; 0: it stands still
}

// mean returns the mean speed.
func (d TargetSlowdowns) mean() float64 {
	if d.Every == 0 {
		return 1
	}
	return 1 - (1-d.Speed)*float64(d.For)/float64(d.Every)
}

// end returns when work ends that begins at at and takes that long without a dip.
func (d TargetSlowdowns) end(at, work time.Duration) time.Duration {
	if d.Every == 0 || at < 0 {
		return at + work
	}
	for {
		span, speed := d.Every-d.For-at%d.Every, 1.
		if span <= 0 {
			span, speed = span+d.For, d.Speed
		}
		done := time.Duration(float64(span) * speed)
		if work < done {
			return at + time.Duration(float64(work)/speed)
		}
		at, work = at+span, work-done
	}
}
