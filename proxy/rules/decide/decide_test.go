package decide

import (
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/limit"
)

// The window of a token bucket is the time that it takes to fill; whole
// seconds, rounded up, and never 0.
func TestPolicyFields(t *testing.T) {
	for _, test := range []struct {
		config limit.Config
		quota  string
	}{
		{limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 60}, "q=10;w=60"},
		{limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 0.25}, "q=10;w=1"},
		{limit.Config{Algorithm: limit.Sliding, Limit: 10, Window: 1.5}, "q=10;w=2"},
		{limit.Config{Algorithm: limit.Token, Capacity: 50, FillRate: 5}, "q=50;w=10"},
		{limit.Config{Algorithm: limit.Token, Capacity: 50, FillRate: 100}, "q=50;w=1"},
		{limit.Config{Algorithm: limit.GCRA, Limit: 100, Window: 60, Burst: 3}, "q=100;w=60"},
		{limit.Config{Algorithm: limit.GCRA, Limit: 2, Window: 1, Burst: 10}, "q=10;w=5"},
	} {
		lim := testkit.Must(limit.New(test.config))(t)
		want := "RateLimit-Policy: \"global\";" + test.quota + "\r\nRateLimit: \"global\";r="
		if got := string(NewPolicy(lim).fields); got != want {
			t.Errorf("%+v: %q, want %q", test.config, got, want)
		}
	}
}

// A client that finds the queue full comes back when the first of its line is due.
func TestUnkept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	f := func(s deferred.PutResult, why string, after time.Duration) {
		t.Helper()
		v := Verdict{State: limit.Decision{RetryAfter: 2 * time.Second}}
		if got := v.WhyNotStored(now, &s); got != why || v.State.RetryAfter != after {
			t.Errorf("%+v: %q, after %v; want %q, %v", s, got, v.State.RetryAfter, why, after)
		}
	}
	f(deferred.PutResult{Outcome: deferred.Full, Bound: deferred.BoundLine, Due: now.Add(time.Minute)}, "queue is full",
		time.Minute)
	f(deferred.PutResult{Outcome: deferred.Full, Bound: deferred.BoundLine, Due: now.Add(time.Second)}, "queue is full",
		time.Second)
	// it is being delivered
	f(deferred.PutResult{Outcome: deferred.Full, Bound: deferred.BoundLine, Due: now}, "queue is full", 2*time.Second)
	// there is no line
	f(deferred.PutResult{Outcome: deferred.Full, Bound: deferred.BoundEntries}, "queue is full", 2*time.Second)
	f(deferred.PutResult{Outcome: deferred.Full, Bound: deferred.BoundRate}, "too many requests are being stored",
		2*time.Second)
	f(deferred.PutResult{Outcome: deferred.Unstored, Due: now.Add(time.Minute)}, "queue cannot be written", 2*time.Second)
}

func TestAppendSeconds(t *testing.T) {
	for span, want := range map[time.Duration]string{
		2989333 * time.Microsecond: "2.989333", time.Microsecond: "0.000001", 90 * time.Minute: "5400",
		1500 * time.Millisecond: "1.5",
	} {
		if have := string(appendSeconds(nil, span)); have != want {
			t.Errorf("%v: have %s, want %s", span, have, want)
		}
	}
}

// A target's own limits stand for ours where they leave the client less, and only if the
// client gets to see them: fields that Connection names are not passed on.
func TestTighter(t *testing.T) {
	l := testkit.Must(limit.New(limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 60}))(t)
	v := Verdict{Limit: &l, State: limit.Decision{Limit: 10, Remaining: 5}}
	for _, test := range []struct {
		name, value string
		named       bool // by Connection
		want        LimitFields
	}{
		{"X-RateLimit-Remaining", "5", false, 0},
		{"x-ratelimit-remaining", "4", false, XRateLimit},
		{"X-RateLimit-Remaining", "few", false, XRateLimit},
		{"X-RateLimit-Remaining", "4", true, 0},
		{"RateLimit-Remaining", "5", false, 0},
		{"ratelimit-remaining", "4", false, Envoy},
		{"RateLimit", `"a";r=5;t=1`, false, 0},
		{"ratelimit", `"a";r=5, "b";r=4`, false, Standard},
		{"RateLimit", `"a";r=4`, true, 0},
		{"RateLimit-Policy", `"a";q=1`, false, 0},
	} {
		h := http1.Head{Fields: []http1.Field{{Name: []byte(test.name), Value: []byte(test.value), Hop: test.named}}}
		if got := v.Tighter(&h); got != test.want {
			t.Errorf("%s: %s, named by Connection %v: families %b, want %b", test.name, test.value, test.named, got, test.want)
		}
	}
}
