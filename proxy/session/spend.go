package session

import (
	"math"
	"time"
)

// A connection ends after a number of requests and after a time, so that
// clients spread over proxies that were started later, and nothing that a
// connection holds is held for ever. It ends between two exchanges: the answer
// to the last request announces the close.

// ageSpread is the largest part by which a connection's time is shortened, so
// that clients that came together do not come back together.
const ageSpread = 1.0 / 8

// spend notes one more request, and whether it is the last one of its connection.
func (s *Session) spend(now time.Time) {
	s.requests++
	most := s.env.Settings.RequestsMax
	s.spent = most > 0 && s.requests >= most || !s.endBy.IsZero() && !now.Before(s.endBy)
}

// endOf is when a connection accepted now is old; zero: never. The times of
// successive connections are spread evenly (Weyl, 1916: the fractional parts of
// the multiples of an irrational number are).
func (e *Env) endOf(now time.Time) time.Time {
	age := e.Settings.AgeMax
	if age <= 0 {
		return time.Time{}
	}
	e.accepted++
	_, part := math.Modf(float64(e.accepted) * math.Phi)
	return now.Add(age - time.Duration(part*ageSpread*float64(age)))
}
