package record

import (
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

func TestJudge(t *testing.T) {
	good := ValidityEvidence{Due: 10_000, Started: 10_000, PacerLagP99: 0.0001, LagP99: 0.0001}
	for name, c := range map[string]struct {
		change  func(e *ValidityEvidence)
		want    Validity
		reasons int
	}{
		"kept":                      {func(*ValidityEvidence) {}, Valid, 0},
		"nothing due yet":           {func(e *ValidityEvidence) { *e = ValidityEvidence{} }, Valid, 0},
		"sent more than was judged": {func(e *ValidityEvidence) { e.Started = 10_050 }, Valid, 0},
		"lag at the bound":          {func(e *ValidityEvidence) { e.PacerLagP99, e.LagP99 = lagValid, lagValid }, Valid, 0},
		"lag above it":              {func(e *ValidityEvidence) { e.PacerLagP99, e.LagP99 = 0.0011, 0.0011 }, Degraded, 1},
		"lag at the second bound": {func(e *ValidityEvidence) { e.PacerLagP99, e.LagP99 = lagInvalid, lagInvalid },
			Degraded, 1},
		"lag above that":          {func(e *ValidityEvidence) { e.PacerLagP99, e.LagP99 = 0.011, 0.011 }, Invalid, 1},
		"waited for connections":  {func(e *ValidityEvidence) { e.LagP99 = 5 }, Degraded, 1},
		"rate error at the bound": {func(e *ValidityEvidence) { e.Started = 9990 }, Valid, 0},
		"rate error above it":     {func(e *ValidityEvidence) { e.Started = 9989 }, Degraded, 1},
		"at the second bound":     {func(e *ValidityEvidence) { e.Started = 9900 }, Degraded, 1},
		"above that":              {func(e *ValidityEvidence) { e.Started = 9899 }, Invalid, 1},
		"a pause at the bound":    {func(e *ValidityEvidence) { e.Late = 10 }, Valid, 0},
		"a pause above it":        {func(e *ValidityEvidence) { e.Late = 11 }, Degraded, 1},
		"everything at once": {
			func(e *ValidityEvidence) {
				*e = ValidityEvidence{Due: 10_000, Started: 1, Late: 5000, PacerLagP99: 1, LagP99: 2}
			}, Invalid, 3},
	} {
		e := good
		c.change(&e)
		got, reasons := e.Judge()
		if got != c.want || len(reasons) != c.reasons || reasons == nil {
			t.Errorf("%s: %s because %q, want %s with %d reasons", name, got, reasons, c.want, c.reasons)
		}
	}
}

// The reason says what the requests waited for.
func TestJudgeNamesTheCause(t *testing.T) {
	for want, e := range map[string]ValidityEvidence{
		"the generator was late while connections were idle: " +
			"pacer lag p99 20.0 ms": {Due: 1, Started: 1, PacerLagP99: 0.02, LagP99: 0.02},
		"the generator was a little late while connections were idle: " +
			"pacer lag p99 2.00 ms": {Due: 1, Started: 1, PacerLagP99: 0.002, LagP99: 0.002},
		"all connections were busy (lag p99 50.0 ms): the target saw " +
			"requests later than planned": {Due: 1, Started: 1, LagP99: 0.05},
		"connections had to be opened first (lag p99 50.0 ms): the target saw " +
			"requests later than planned": {Due: 1, Started: 1, LagP99: 0.05, Dialled: true},
		"the generator stalled: 5 requests missed their " +
			"time by more than 10 ms": {Due: 100, Started: 100, Late: 5},
		"5 requests were not sent, because connecting failed or their heads are too large: the target " +
			"saw fewer than planned": {Due: 1000, Started: 1000, Unconnected: 5},
		"0.50 % of the due requests were not sent in time": {Due: 1000, Started: 995},
		"only 50.00 % of the due requests were sent in time: the target was too slow for the available connections, or " +
			"this machine for the rate": {Due: 10, Started: 5},
	} {
		if _, reasons := e.Judge(); len(reasons) != 1 || reasons[0] != want {
			t.Errorf("%+v: %q, want %q", e, reasons, want)
		}
	}
}

func TestThresholds(t *testing.T) {
	r := &Result{Completed: 100, Success: 86, RateLimited: 8, Shed: 4, Errors: 2, Throughput: 50}
	r.Latency = Summary{Count: 1, Mean: 1, P50: 2, P95: 3, P99: 4, Max: 5}
	r.Lag = Summary{Count: 1, P99: 6}
	r.BusyLag = Summary{P999: 7} // of nothing
	for _, c := range []struct {
		name, demand string
		value        float64
		held         bool
	}{
		{"latency.mean", "<1", 1, false},
		{"latency.mean", "<=1", 1, true},
		{"latency.p50", ">1.5", 2, true},
		{"latency.p95", "< 3.5", 3, true},
		{"latency.p99", ">4", 4, false},
		{"latency.max", ">=5", 5, true},
		{"lag.p99", "<1e-3", 6, false},
		{"latency.p95", "<3001ms", 3, true},
		{"latency.p95", "<= 3s", 3, true},
		{"lag.p99", "<500µs", 6, false},
		{"busyLag.p999", "<8", 7, false},
		{"busyLag.p999", ">1", 7, false},
		{"successShare", ">0.85", 0.86, true},
		{"rejectedShare", "<0.08", 0.08, false},
		{"shedShare", "<0.05", 0.04, true},
		{"errorShare", "<0.05", 0.02, true},
		{"throughput", ">49.9", 50, true},
	} {
		threshold, err := ParseThreshold(c.name, c.demand)
		if err != nil {
			t.Errorf("%s %s: %v", c.name, c.demand, err)
			continue
		}
		if got := threshold.Check(r); got.Value != c.value || got.Held != c.held || got.Name != c.name ||
			got.Demand != c.demand {
			t.Errorf("%s %s: %+v, want %v held=%v", c.name, c.demand, got, c.value, c.held)
		}
	}
}

func TestThresholdsRefused(t *testing.T) {
	const badName, badDemand = "is not a threshold; allowed: latency, latencySuccess, ",
		"must be <, <=, > or >= and a number"
	for _, c := range []struct{ name, demand, want string }{
		{"latency.p50", "0.1", badDemand},
		{"latency.p50", "<", badDemand},
		{"latency.p50", "=1", badDemand},
		{"latency.p50", "<fast", badDemand},
		{"latency.p50", "<NaN", badDemand},
		{"latency.p50", "<Inf", badDemand},
		{"latency.p50", "", badDemand},
		{"latency.p50", "<>1", badDemand},
		{"latency.p50", "<50 apples", badDemand},
		{"successShare", ">50ms", badDemand},
		{"throughput", ">1s", badDemand},
		{"latency", "<1", badName},
		{"", "<1", badName},
	} {
		if _, err := ParseThreshold(c.name, c.demand); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q %q: %v, want %v", c.name, c.demand, err, c.want)
		}
	}
}

// A demand can be made on everything that a result shows about times and rates.
func TestThresholdNames(t *testing.T) {
	r := &Result{Throughput: 1}
	for _, spread := range []struct {
		name string
		s    *Summary
	}{
		{"latency", &r.Latency}, {"latencySuccess", &r.LatencySuccess}, {"latencyRateLimited", &r.LatencyRateLimited},
		{"latencyErrors", &r.LatencyErrors}, {"serviceTime", &r.ServiceTime}, {"lag", &r.Lag}, {"pacerLag", &r.PacerLag},
		{"busyLag", &r.BusyLag}, {"dialLag", &r.DialLag},
	} {
		*spread.s = Summary{Count: 1, Mean: 1, Min: 2, P50: 3, P90: 4, P95: 5, P99: 6, P999: 7, Max: 8}
		for i, statistic := range []string{"mean", "min", "p50", "p90", "p95", "p99", "p999", "max"} {
			threshold := testkit.Must(ParseThreshold(spread.name+"."+statistic, "<1h"))(t)
			if got := threshold.Check(r); got.Value != float64(i+1) || !got.Held {
				t.Errorf("%s.%s is %+v, want %d", spread.name, statistic, got, i+1)
			}
		}
		*spread.s = Summary{}
	}
	for _, name := range []string{"successShare", "rejectedShare", "errorShare", "throughput"} {
		if got := testkit.Must(ParseThreshold(name, ">=0"))(t).Check(r); !got.Held {
			t.Errorf("%s is %+v", name, got)
		}
	}
}

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		success, limited, shed, errors uint64
		want                           string
	}{
		{0, 0, 0, 0, "unknown: no request has an outcome"},
		{20, 0, 0, 0, "healthy: 100.0 % answered"},
		{19, 1, 0, 0, "limited: 95.0 % answered, 5.0 % rate limited"},
		{0, 20, 0, 0, "refusing: 0.0 % answered, 100.0 % rate limited"},
		{18, 1, 0, 1, "failing: 90.0 % answered, 5.0 % rate limited, 5.0 % failed"},
		{0, 19, 0, 1, "failing: 0.0 % answered, 95.0 % rate limited, 5.0 % failed"},
		{18, 1, 1, 0, "overloaded: 90.0 % answered, 5.0 % rate limited, 5.0 % shed"},
		{0, 0, 20, 0, "refusing: 0.0 % answered, 100.0 % shed"},
		{0, 0, 19, 1, "failing: 0.0 % answered, 95.0 % shed, 5.0 % failed"},
		{0, 0, 0, 20, "down: 0.0 % answered, 100.0 % failed"},
	} {
		r := Result{Success: c.success, RateLimited: c.limited, Shed: c.shed, Errors: c.errors,
			Completed: c.success + c.limited + c.shed + c.errors}
		if got := r.HealthText(); got != c.want {
			t.Errorf("have %q, want %q", got, c.want)
		}
	}
}
