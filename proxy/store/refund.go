package store

import (
	"bytes"
	"strings"
	"time"

	"weir/proxy/limit"
)

// givenBack follows the name of a rule in that of the limit on what is given back. No name of a
// rule has a space.
const givenBack = " given back"

// LimitsRefunds reports whether an ask with these counters is one of [RefundUnsent], which is about no
// request.
func LimitsRefunds(counters []Counter) bool {
	return len(counters) == 1 && strings.HasSuffix(counters[0].Rule, givenBack)
}

// RefundUnsent refunds the charge of a request that was admitted and not sent to a target. r.Instant
// and mode are At and Mode of the answer that admitted it; r is borrowed. Each key may be
// refunded one request per window, on all proxies together. Otherwise it could have as many
// requests as its limit admits waiting for a target again and again. That is a separate limit,
// [limit.Limit.OncePerWindow], which the store keeps like others; a lane remembers its refusals. While the
// store is unavailable, a request that it has charged stays charged.
func RefundUnsent(now time.Time, lane Lane, r *Refund, mode Mode) {
	c, at := &r.Counter, r.Instant
	if at == 0 || !c.Limit.Refunds() || c.Limit.Algorithm() == limit.Leaky {
		return
	}
	kept, once := *c.Limit, c.Limit.OncePerWindow()
	charged := Counter{Rule: c.Rule, Key: bytes.Clone(c.Key), Limit: &kept, Cost: c.Cost}
	ask := Ask{Counters: []Counter{{Rule: c.Rule + givenBack, Key: charged.Key, Limit: &once, Cost: 1}}, N: 1}
	done := func(now time.Time, ans *Answer) {
		if ans.Granted == 1 && ans.Mode == mode {
			lane.Refund(now, &charged, at, mode)
		}
	}
	var ans Answer
	if lane.Ask(now, &ask, &ans, done) {
		done(now, &ans)
	}
}
