package deferred

import (
	"slices"
	"time"
)

// An Attempt is the result of an attempt to deliver a request.
type Attempt struct {
	N          int           // number of the attempt, from 1
	Sent       bool          // part of the request may have reached the target
	Status     int           // of the target's answer; 0: there is none
	RetryAfter time.Duration // from the answer; 0: there is none
	Keyed      bool          // the client sent an Idempotency-Key
}

// spread is the part by which a back-off is at most longer or shorter, at random, so that requests that
// failed at the same time are not repeated at the same time.
const spread = 0.2

// Judge returns the state after an attempt and, for Waiting, the time until the next one.
// chance is random, from 0 to 1.
//
// A request without an Idempotency-Key is not sent again if part of it may have reached the
// target.
func (d *Defer) Judge(a *Attempt, chance float64) (to State, after time.Duration) {
	again := a.Status == 0 || slices.Contains(d.RetryOn, a.Status)
	switch {
	case !again && a.Status < 400:
		return Done, 0
	case !again:
		return Failed, 0
	case a.Sent && a.Status == 0 && !a.Keyed:
		return Unknown, 0
	case a.Sent && !a.Keyed, a.N >= d.Attempts:
		return Failed, 0
	case a.RetryAfter > 0:
		return Waiting, a.RetryAfter
	}
	return Waiting, d.backoff(a.N, chance)
}

// JudgeCallback is Judge for an attempt to send a callback: 2xx means done, 410 means that the
// receiver no longer exists, and after anything else it is sent again.
func (d *Defer) JudgeCallback(a *Attempt, chance float64) (to State, after time.Duration) {
	switch {
	case a.Status >= 200 && a.Status < 300:
		return Done, 0
	case a.Status == 410:
		return Failed, 0
	}
	return d.Judge(&Attempt{N: a.N, Keyed: true, RetryAfter: min(a.RetryAfter, span(d.Backoff.Max))}, chance)
}

// backoff returns the pause after attempt n.
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
