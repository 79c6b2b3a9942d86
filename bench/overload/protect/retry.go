package protect

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/loadgen/record"
)

// attemptMax bounds an attempt of a client that retries.
const attemptMax = time.Second

// pause returns how long a client waits before it retries: 100 ms on average.
func pause(chance *rand.Rand) time.Duration {
	return 50*time.Millisecond + time.Duration(chance.Int64N(int64(100*time.Millisecond)))
}

// retrying sends the load from clients that retry, which our load generator has none of, and returns
// the requests. The outcome of a request is that of its last attempt.
func (st *stage) retrying(start time.Time, round int) []request {
	due := st.s.arrivals(rand.New(rand.NewPCG(uint64(round), 2)))
	all, lags := make([]request, len(due)), make([]time.Duration, len(due))
	ask := rig.Must(http.NewRequest(http.MethodGet, "http://"+st.fronts[0]+"/api/test", nil))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var sent sync.WaitGroup
	defer sent.Wait()
	for i, at := range due {
		st.Wait(start.Add(at))
		lags[i] = time.Since(start) - at
		sent.Go(func() {
			status := st.send(client, ask, rand.New(rand.NewPCG(uint64(round), uint64(i))))
			all[i] = request{Outcome: rig.Outcome{Due: at, Done: time.Since(start), Status: status}}
		})
	}
	sent.Wait()
	rig.Check(st.Ctx.Err())
	st.judgeLag(lags)
	return all
}

// send sends a request until it is answered with 200 or has been retried as often as it may be, and
// returns the last status; 0 if that attempt got no answer.
func (st *stage) send(client *http.Client, ask *http.Request, chance *rand.Rand) (status int) {
	for retries := 0; ; retries++ {
		status = sendOnce(st.Ctx, client, ask)
		if status == http.StatusOK || retries == st.s.Retries || rig.Wait(st.Ctx, pause(chance)) != nil {
			return status
		}
	}
}

// sendOnce sends an attempt and returns the status of its answer; 0 for none.
func sendOnce(ctx context.Context, client *http.Client, ask *http.Request) int {
	ctx, cancel := context.WithTimeout(ctx, attemptMax)
	defer cancel()
	status, _, err := rig.Do(client, ask.WithContext(ctx))
	if err != nil {
		return 0
	}
	return status
}

// judgeLag judges how late requests were sent, as our load generator does.
func (st *stage) judgeLag(lags []time.Duration) {
	slices.Sort(lags)
	st.lag = result.Quantile(lags, .99).Seconds()
	behind := len(lags)
	if i, _ := slices.BinarySearch(lags, record.LateThreshold+1); i < behind {
		behind = i
	}
	n := uint64(len(lags))
	st.validity, st.reasons = record.ValidityEvidence{Due: n, Started: n, Late: n - uint64(behind), PacerLagP99: st.lag,
		LagP99: st.lag}.Judge()
}
