package record

import (
	"fmt"
	"strings"
)

// A Health says in one word how the target answered. A Validity is about the generator.
type Health string

const (
	Healthy    Health = "healthy"    // all answers were good
	Limited    Health = "limited"    // good answers and refusals by a rate limit
	Overloaded Health = "overloaded" // good answers, and requests that a gate shed
	Refusing   Health = "refusing"   // all requests were refused by a rate limit or shed
	Failing    Health = "failing"    // some requests failed
	Down       Health = "down"       // no request was answered well, refused or shed
	Unknown    Health = "unknown"    // no answers yet
)

// Health returns the health of the target according to the outcomes.
func (r *Result) Health() Health {
	switch {
	case r.Success+r.RateLimited+r.Shed+r.Errors == 0:
		return Unknown
	case r.Success+r.RateLimited+r.Shed == 0:
		return Down
	case r.Errors > 0:
		return Failing
	case r.Success == 0:
		return Refusing
	case r.Shed > 0:
		return Overloaded
	case r.RateLimited > 0:
		return Limited
	}
	return Healthy
}

// HealthText returns the health with the shares that it is based on.
func (r *Result) HealthText() string {
	share := func(n uint64) string { return fmt.Sprintf("%.1f %%", 100*r.Share(n)) }
	shares := []string{share(r.Success) + " answered"}
	if r.RateLimited > 0 {
		shares = append(shares, share(r.RateLimited)+" rate limited")
	}
	if r.Shed > 0 {
		shares = append(shares, share(r.Shed)+" shed")
	}
	if r.Errors > 0 {
		shares = append(shares, share(r.Errors)+" failed")
	}
	if r.Health() == Unknown {
		shares = []string{"no request has an outcome"}
	}
	return string(r.Health()) + ": " + strings.Join(shares, ", ")
}
