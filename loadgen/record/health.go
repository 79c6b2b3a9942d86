package record

import (
	"fmt"
	"strings"
)

// A Health says in one word how the target answered. It is about the target, as a
// Verdict is about the generator.
type Health string

const (
	Healthy  Health = "healthy"  // it answered everything well
	Limited  Health = "limited"  // it answered, or refused by a rate limit
	Refusing Health = "refusing" // it refused everything by a rate limit
	Failing  Health = "failing"  // some requests failed
	Down     Health = "down"     // no request was answered well, or refused
	Unknown  Health = "unknown"  // nothing has come back
)

// HealthOf judges a target by its outcomes.
func HealthOf(success, rateLimited, errors uint64) Health {
	switch {
	case success+rateLimited+errors == 0:
		return Unknown
	case success+rateLimited == 0:
		return Down
	case errors > 0:
		return Failing
	case success == 0:
		return Refusing
	case rateLimited > 0:
		return Limited
	}
	return Healthy
}

// Health judges the target of the run.
func (r *Result) Health() Health { return HealthOf(r.Success, r.RateLimited, r.Errors) }

// HealthText is the health with the shares that it rests on.
func (r *Result) HealthText() string {
	share := func(n uint64) string { return fmt.Sprintf("%.1f %%", 100*r.Share(n)) }
	shares := []string{share(r.Success) + " answered"}
	if r.RateLimited > 0 {
		shares = append(shares, share(r.RateLimited)+" rate limited")
	}
	if r.Errors > 0 {
		shares = append(shares, share(r.Errors)+" failed")
	}
	if r.Health() == Unknown {
		shares = []string{"no request has an outcome"}
	}
	return string(r.Health()) + ": " + strings.Join(shares, ", ")
}
