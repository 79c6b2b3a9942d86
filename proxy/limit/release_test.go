package limit_test

import (
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

// Of one window, or of the time in which a bucket is filled, Once admits one request.
func TestOnce(t *testing.T) {
	for _, test := range []struct {
		of   limit.Config
		want limit.Config
	}{
		{limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: 7}, limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 7}},
		{limit.Config{Algorithm: limit.Sliding, Limit: 5, Window: 7}, limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 7}},
		{limit.Config{Algorithm: limit.GCRA, Limit: 5, Window: 7, Burst: 2}, limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 7}},
		{limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 2}, limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 0.4}},
		{limit.Config{Algorithm: limit.Token, Capacity: 3, FillRate: 1}, limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 0.333333}},
		{limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 0.000001}, limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 0.000001}},
	} {
		once := limittest.Must(test.of).Once()
		if got := once.Config(); got != test.want {
			t.Errorf("%+v: %+v, want %+v", test.of, got, test.want)
		}
	}
}
