package season

import (
	"math"
	"time"
)

// A clock tells the local time of Unix seconds.
type clock struct{ location *time.Location }

// monday is the distance of the Unix epoch, a Thursday, from a Monday 0:00.
const monday = 3 * day

// local returns the seconds that a wall clock counts, from a Monday 0:00.
func (c clock) local(at float64) float64 {
	_, offset := time.Unix(int64(math.Floor(at)), 0).In(c.location).Zone()
	return at + float64(offset) + monday
}

// phase returns the second of the local week.
func (c clock) phase(at float64) float64 {
	local := c.local(at)
	return local - week*math.Floor(local/week)
}

// nextAfter returns the smallest number above u.
func nextAfter(u float64) float64 { return math.Nextafter(u, math.Inf(1)) }
