package session

import (
	"math"
	"time"
)

// A connection ends after a number of requests or at an age, so that clients are distributed
// over proxies that were started later, and resources of a connection are freed. It ends
// between two exchanges: the answer to the last request announces the close.

// ageSpread is the largest part by which a connection's maximum age is reduced, so that
// clients that connected at the same time do not reconnect at the same time.
const ageSpread = 1.0 / 8

// spend counts a request, and determines whether it is the last of its connection.
func (s *Session) spend(now time.Time) {
	s.requests++
	most := s.env.Settings.RequestsMax
	s.spent = most > 0 && s.requests >= most || !s.endBy.IsZero() && !now.Before(s.endBy)
}

// endOf returns when a connection accepted now reaches its maximum age; zero means never. The
// reductions of successive connections are spread evenly, like the fractional parts of the
// multiples of an irrational number (Weyl, 1916).
func (e *Env) endOf(now time.Time) time.Time {
	age := e.Settings.AgeMax
	if age <= 0 {
		return time.Time{}
	}
	e.accepted++
	_, part := math.Modf(float64(e.accepted) * math.Phi)
	return now.Add(age - time.Duration(part*ageSpread*float64(age)))
}
