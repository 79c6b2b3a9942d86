package upstream

import (
	"math/rand/v2"
	"time"
)

// A target gets no requests for a while when requests to it have failed.
//
// Kinds of failure have different weights. A failed connect costs no client an answer and
// is unambiguous, so one is enough. 502, 503 and 504 (including those that the proxy
// answers itself when the target closes early or is too slow) mean that the target has a
// problem: five in a row, which is Envoy's default for both of its streaks. Any other 5xx
// may be caused by one client's bad requests, whatever their share of the traffic. It
// takes a streak that has also lasted for some time without one good answer, which
// requests of other clients would have got.
const (
	gatewayErrorsMax = 5               // 502, 503, 504 without an answer below 500 in between
	serverErrorsMax  = 5               // any 5xx likewise …
	serverErrorSpan  = 5 * time.Second // … over at least this time

	backoffMin = time.Second      // first ejection; each further one lasts twice as long
	backoffMax = 30 * time.Second // upper bound; up to a quarter is added at random
	quiet      = 30 * time.Second // up for this long: the next ejection counts as the first
)

// backoff returns backoffMin × 2^level, at most backoffMax, plus up to a quarter at random, so that
// loops and proxies do not all return at once.
func backoff(level int, chance *rand.Rand) time.Duration {
	d := min(backoffMin<<min(level, 10), backoffMax)
	return d + time.Duration(chance.Int64N(int64(d/4)+1))
}

// A Status is the state of a target as one loop sees it.
type Status uint8

const (
	Up       Status = iota // takes its share of requests
	Ejected                // gets no requests for a while because some failed
	Probing                // its ejection is over; one request at a time tests it
	Down                   // active checks fail; gets no requests
	Draining               // removed from the list; requests in flight finish
)

// String returns the status as a word.
func (s Status) String() string {
	return [...]string{"up", "ejected", "probing", "down", "draining"}[s]
}

// A HealthEpoch is a period of a target's history. Outcomes of requests and connects that began
// before the target was ejected, probed or restored are ignored: a hundred connects that
// fail when a target dies count as one failure.
type HealthEpoch uint32

// Health is one target's state as one loop sees it. It records the outcomes of
// requests and connects. Time comes from the arguments only; an ejection ends without a call.
//
//	up ──failures──▶ ejected ──back-off──▶ probing ──success──▶ up
//	                    ▲                     │
//	                    └───────failure───────┘
//
// An ejected target is still used if there is no other (see Balancer), and is up again after
// the first success.
//
// Owned by its loop.
type Health struct {
	probeMax time.Duration // see NewBalancer
	chance   *rand.Rand
	epoch    HealthEpoch

	gatewayErrors int       // in a row
	serverErrors  int       // in a row
	firstError    time.Time // time of the first of serverErrors

	out       bool      // ejected or probing
	connects  bool      // because of connects, not answers
	until     time.Time // end of the ejection; then probing
	probe     time.Time // expiry of the current probe; zero: none
	level     int       // ejections in a row
	back      time.Time // when it was last up again
	ejections uint64

	checkResult CheckResult
	recheck     time.Time // earliest time at which the verdict may change
	retired     bool
}

// Epoch returns the current epoch. Take it right after Choose for a request, and before a
// connect begins. It is passed back with the outcome.
func (h *Health) Epoch() HealthEpoch { return h.epoch }

// Ejections returns how often the target has been ejected.
func (h *Health) Ejections() uint64 { return h.ejections }

// Status returns the target's status.
func (h *Health) Status(now time.Time) Status {
	switch {
	case h.retired:
		return Draining
	case h.checkResult == CheckedDown:
		return Down
	case !h.out:
		return Up
	case now.Before(h.until):
		return Ejected
	}
	return Probing
}

// usable reports that at most passive ejection prevents requests.
func (h *Health) usable() bool { return h.checkResult != CheckedDown }

// ready reports whether the next request may go to the target, normally or as a probe.
func (h *Health) ready(now time.Time) bool {
	return h.usable() && (!h.out || !now.Before(h.until) && !now.Before(h.probe))
}

// chosen records that a request goes to the target.
func (h *Health) chosen(now time.Time) {
	if h.out && h.ready(now) {
		h.probe = now.Add(h.probeMax)
		h.epoch++
	}
}

// Connected records a new connection. A target that was ejected because of connects is up
// again.
func (h *Health) Connected(now time.Time) {
	if h.out && h.connects {
		h.restore(now)
	}
}

// ConnectFailed records a connect, begun in epoch, that failed because of the target, not
// for lack of our own descriptors.
func (h *Health) ConnectFailed(now time.Time, epoch HealthEpoch) {
	if epoch == h.epoch {
		h.eject(now, true)
	}
}

// Answered records the status of the final answer to a request chosen in epoch: the
// target's, or the proxy's own 502 or 504 if the target closed early, sent an invalid
// response or was too slow. A kept-alive connection that was found closed does not count,
// nor does a failed connect.
func (h *Health) Answered(now time.Time, epoch HealthEpoch, status int) {
	if epoch != h.epoch {
		return
	}
	if status < 500 {
		h.gatewayErrors, h.serverErrors = 0, 0
		if h.out {
			h.restore(now)
		}
		return
	}
	gateway := status >= 502 && status <= 504
	if h.out {
		// A 500 may be caused by the target or by the request.
		h.probe = time.Time{}
		if gateway {
			h.eject(now, false)
		}
		return
	}
	if gateway {
		h.gatewayErrors++
	}
	if h.serverErrors == 0 {
		h.firstError = now
	}
	h.serverErrors++
	long := h.serverErrors >= serverErrorsMax && now.Sub(h.firstError) >= serverErrorSpan
	if long || h.gatewayErrors >= gatewayErrorsMax {
		h.eject(now, false)
	}
}

// Abandoned records that a request chosen in epoch ended without information about the
// target: the client disconnected, or the proxy had no room. Each chosen request must end
// in Answered or Abandoned; both together are harmless.
func (h *Health) Abandoned(epoch HealthEpoch) {
	if epoch == h.epoch {
		h.probe = time.Time{}
	}
}

// Checked records the verdict of active checks, and the earliest time at which it may
// change. A target that comes up again starts with a clean history.
func (h *Health) Checked(now time.Time, v CheckResult, recheck time.Time) {
	if h.checkResult == CheckedDown && v == CheckedUp {
		h.restore(now)
	}
	h.checkResult, h.recheck = v, recheck
}

// eject ejects the target, or extends the ejection after a failed probe. Failures of
// requests that had no other target do not extend it.
func (h *Health) eject(now time.Time, connects bool) {
	if h.out && now.Before(h.until) {
		return
	}
	if !h.out && now.Sub(h.back) >= quiet {
		h.level = 0
	}
	h.until = now.Add(backoff(h.level, h.chance))
	h.level++
	h.out, h.connects = true, connects
	h.ejections++
	h.begin()
}

// restore makes the target up again.
func (h *Health) restore(now time.Time) {
	h.out, h.back = false, now
	h.begin()
}

// begin starts a new epoch.
func (h *Health) begin() {
	h.epoch++
	h.probe = time.Time{}
	h.gatewayErrors, h.serverErrors = 0, 0
}
