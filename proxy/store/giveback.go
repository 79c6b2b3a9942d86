package store

import (
	"bytes"
	"time"

	"weir/proxy/limit"
)

// GiveBack gives back what an admitted request was charged that was not sent to a target. r is
// borrowed; its instant is Answer.At, and mode the mode, of the answer that admitted the request. It gives back one request per key
// and window, whoever asks, because a key whose requests were all given back could have its
// limit's worth of requests waiting for a target again and again. That is a limit of its own,
// [limit.Limit.Once], which the store keeps like others; a lane remembers its refusals. While the
// store is unavailable, a request that it has charged stays charged.
func GiveBack(now time.Time, lane Lane, r *Release, mode Mode) {
	c, at := &r.Counter, r.Instant
	if at == 0 || !c.Limit.Releases() || c.Limit.Algorithm() == limit.Leaky {
		return
	}
	kept, once := *c.Limit, c.Limit.Once()
	charged := Counter{Rule: c.Rule, Key: bytes.Clone(c.Key), Limit: &kept, Cost: c.Cost}
	ask := Ask{Counters: []Counter{{Rule: c.Rule + " given back", Key: charged.Key, Limit: &once, Cost: 1}}, N: 1}
	done := func(now time.Time, ans *Answer) {
		if ans.Granted == 1 && ans.Mode == mode {
			lane.Release(now, &charged, at, mode)
		}
	}
	var ans Answer
	if lane.Ask(now, &ask, &ans, done) {
		done(now, &ans)
	}
}
