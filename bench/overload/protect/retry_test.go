package protect

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

// A client stops at the first 200, and at the bound of its retries.
func TestClientRetries(t *testing.T) {
	for name, c := range map[string]struct {
		failures, retries int
		status            int // of failures; 0: the connection is cut
		want, attempts    int
	}{
		"at once":               {0, 3, 503, 200, 1},
		"after two refusals":    {2, 3, 503, 200, 3},
		"at the last attempt":   {3, 3, 429, 200, 4},
		"refused once too much": {4, 3, 503, 503, 4},
		"cut once too much":     {2, 1, 0, 0, 2},
		"does not retry":        {1, 0, 500, 500, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var attempts atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				switch n := attempts.Add(1); {
				case n > int64(c.failures):
				case c.status == 0:
					panic(http.ErrAbortHandler)
				default:
					w.WriteHeader(c.status)
				}
			}))
			defer server.Close()
			ask := testkit.Must(http.NewRequest(http.MethodGet, server.URL, nil))(t)
			st := &stage{s: one()}
			st.s.Retries, st.Ctx = c.retries, t.Context()
			got := st.send(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, ask, rand.New(rand.NewPCG(1, 1)))
			if got != c.want || attempts.Load() != int64(c.attempts) {
				t.Errorf("%d after %d attempts, want %d after %d", got, attempts.Load(), c.want, c.attempts)
			}
		})
	}
}

func TestJudgeLag(t *testing.T) {
	lags := func(n int, late time.Duration) []time.Duration {
		return append(make([]time.Duration, 1000-n), slices.Repeat([]time.Duration{late}, n)...)
	}
	for _, c := range []struct {
		lags []time.Duration
		want record.Validity
		p99  float64
	}{
		{lags(10, s), record.Degraded, 0}, // stalls
		{lags(1, s), record.Valid, 0},
		{lags(20, 2*ms), record.Degraded, .002},
		{lags(20, 11*ms), record.Invalid, .011},
	} {
		st := new(stage)
		if st.judgeLag(c.lags); st.validity != c.want || st.lag != c.p99 ||
			(len(st.reasons) == 0) != (c.want == record.Valid) {
			t.Errorf("%s with p99 %v: %v; want %s with %v", st.validity, st.lag, st.reasons, c.want, c.p99)
		}
	}
}
