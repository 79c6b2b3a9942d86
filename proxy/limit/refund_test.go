package limit_test

import (
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

// Of one window, or of the time in which a bucket is filled, OncePerWindow admits one request.
func TestOnce(t *testing.T) {
	for _, test := range []struct {
		of   limit.Config
		want limit.Config
	}{
		{limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: 7},
			limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 7}},
		{limit.Config{Algorithm: limit.Sliding, Limit: 5, Window: 7},
			limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 7}},
		{limit.Config{Algorithm: limit.GCRA, Limit: 5, Window: 7, Burst: 2},
			limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 7}},
		{limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 2},
			limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 0.4}},
		{limit.Config{Algorithm: limit.Token, Capacity: 3, FillRate: 1},
			limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 0.333333}},
		{limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 0.000001},
			limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 0.000001}},
	} {
		once := limittest.Must(test.of).OncePerWindow()
		if got := once.Config(); got != test.want {
			t.Errorf("%+v: %+v, want %+v", test.of, got, test.want)
		}
	}
}

// A key is full at FullAt, and not before. After a change of the rate it owes at most its capacity
// from when it would have been full at the old one.
func TestFullAt(t *testing.T) {
	token := func(capacity int64, rate float64) *limit.Limit {
		return limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: capacity, FillRate: rate})
	}
	for i, test := range []struct {
		charged, l *limit.Limit
		permits    int64
		full       int64 // µs
	}{
		{token(10, 2), token(10, 2), 0, 0},
		{token(10, 2), token(10, 2), 3, 1_500_000},
		{token(10, 3), token(10, 3), 1, 333_333},
		{limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 4, Window: 1, Burst: 9}),
			limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 2, Window: 1, Burst: 9}), 3, 1_500_000},
		{token(10, 2), token(10, 1), 3, 3_000_000},
		{token(100, 100), token(1, 1), 100, 2_000_000},
	} {
		var s limit.State
		test.charged.Decide(limittest.Epoch, &s, limit.Charge{Cost: test.permits, N: 1})
		test.l.Decide(limittest.Epoch, &s, limit.Charge{N: 1}) // from now on its rate applies
		at := test.l.FullAt(limittest.Epoch, &s)
		before, then := test.l.Preview(at-1, &s, limit.Charge{}), test.l.Preview(at+1, &s, limit.Charge{})
		if at != limittest.Epoch+test.full || then.Remaining != test.l.Burst() || test.permits > 0 &&
			before.Remaining == test.l.Burst() {
			t.Errorf("case %d: full after %d µs, want %d; %d remain before, %d then", i, at-limittest.Epoch, test.full,
				before.Remaining, then.Remaining)
		}
	}
}
