package record

import "testing"

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		success, limited, errors uint64
		want                     string
	}{
		{0, 0, 0, "unknown: no request has an outcome"},
		{20, 0, 0, "healthy: 100.0 % answered"},
		{19, 1, 0, "limited: 95.0 % answered, 5.0 % rate limited"},
		{0, 20, 0, "refusing: 0.0 % answered, 100.0 % rate limited"},
		{18, 1, 1, "failing: 90.0 % answered, 5.0 % rate limited, 5.0 % failed"},
		{0, 19, 1, "failing: 0.0 % answered, 95.0 % rate limited, 5.0 % failed"},
		{0, 0, 20, "down: 0.0 % answered, 100.0 % failed"},
	} {
		r := Result{Success: c.success, RateLimited: c.limited, Errors: c.errors, Completed: c.success + c.limited + c.errors}
		if got := r.HealthText(); got != c.want {
			t.Errorf("have %q, want %q", got, c.want)
		}
	}
}
