package terms

import (
	"slices"
	"time"

	"weir/proxy/deferred"
)

// An Attempt is how an attempt to deliver a request has ended.
type Attempt struct {
	N          int           // which it was, from 1
	Sent       bool          // some of the request may have reached the target
	Status     int           // of the target's answer; 0: there is none
	RetryAfter time.Duration // as the answer says; 0: it does not
	Keyed      bool          // the client sent an Idempotency-Key
}

// spread is by how much a back-off may be longer or shorter, so that requests that failed
// together are not sent together again.
const spread = 0.2

// Judge says which state an attempt leads to, and when it is Waiting after what time the
// next is made. chance is from 0 to 1.
//
// A request without Idempotency-Key is not sent again once some of it may have reached the
// target, whatever the answer was.
func (d *Defer) Judge(a *Attempt, chance float64) (to deferred.State, after time.Duration) {
	again := a.Status == 0 || slices.Contains(d.RetryOn, a.Status)
	switch {
	case !again && a.Status < 400:
		return deferred.Done, 0
	case !again:
		return deferred.Failed, 0
	case a.Sent && a.Status == 0 && !a.Keyed:
		return deferred.Unknown, 0
	case a.Sent && !a.Keyed, a.N >= d.Attempts:
		return deferred.Failed, 0
	case a.RetryAfter > 0:
		return deferred.Waiting, min(a.RetryAfter, backoffMax*time.Second)
	}
	return deferred.Waiting, d.backoff(a.N, chance)
}

// JudgeCallback is Judge for an attempt to send a callback: 2xx is done, 410 says that its receiver
// is gone, and whatever else it is, it is sent again.
func (d *Defer) JudgeCallback(a *Attempt, chance float64) (to deferred.State, after time.Duration) {
	switch {
	case a.Status >= 200 && a.Status < 300:
		return deferred.Done, 0
	case a.Status == 410:
		return deferred.Failed, 0
	}
	return d.Judge(&Attempt{N: a.N, Keyed: true, RetryAfter: min(a.RetryAfter, span(d.Backoff.Max))}, chance)
}

// backoff is the pause after attempt n.
func (d *Defer) backoff(n int, chance float64) time.Duration {
	pause := d.Backoff.First
	for range n - 1 {
		if pause *= d.Backoff.Factor; pause >= d.Backoff.Max {
			pause = d.Backoff.Max
			break
		}
	}
	return span(pause * (1 - spread + 2*spread*chance))
}
