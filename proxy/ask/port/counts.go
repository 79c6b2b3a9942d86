package port

import (
	"slices"
	"strconv"
	"time"

	"weir/internal/program/metric"
	"weir/internal/timing/every"
	"weir/proxy/ask/check"
	"weir/proxy/wire/report"
)

// statuses are the answers that are counted separately.
var statuses = [...]int{200, 204, 400, 401, 403, 404, 405, 409, 413, 429, 500, 503}

// counts is what a port counts.
//
// Safe for concurrent use: atomic words.
type counts struct {
	answers   [check.GRPC][len(statuses) + 1]metric.Counter // the last counts any other status
	calls     [check.GRPCCodeCount]metric.Counter           // those of gRPC, instead
	protocols [check.Protocols]metric.Counter
	cut       metric.Counter
	http2     report.HTTP2Counts
}

func (c *counts) count(api check.API, status int, p check.Protocol) {
	c.protocols[p].Inc()
	if api == check.GRPC {
		c.calls[status].Inc()
		return
	}
	i := slices.Index(statuses[:], status)
	if i < 0 {
		i = len(statuses)
	}
	c.answers[api][i].Inc()
}

func (c *counts) register(set *metric.Set) {
	const name, help = "ratelimiter_check_requests_total", "answers of the decision port, by part and status"
	for code := range check.GRPCCode(check.GRPCCodeCount) {
		if code.String() == "" {
			continue
		}
		set.Counter(name+metric.Labels("api", check.GRPC.String(), "code", code.String()), help, c.calls[code].Load)
	}
	for p := range check.Protocols {
		set.Counter("ratelimiter_check_requests_by_protocol_total"+metric.Labels("protocol", p.String()),
			"answers of the decision port, by protocol", c.protocols[p].Load)
	}
	set.Counter("ratelimiter_check_streams_cut_total",
		"streams of the decision port that were ended because the asker made no room for the answer", c.cut.Load)
	report.RegisterHTTP2(set, "ratelimiter_check_", "askers", &c.http2)
	for api := range check.GRPC {
		for i := range c.answers[api] {
			code := "other"
			if i < len(statuses) {
				code = strconv.Itoa(statuses[i])
			}
			set.Counter(name+metric.Labels("api", api.String(), "code", code), help, c.answers[api][i].Load)
		}
	}
}

// undescribed counts and logs the requests that cannot be described.
//
// Safe for concurrent use: its fields are.
type undescribed struct {
	requests metric.Counter
	lines    every.LogThrottle
}

func (u *undescribed) note(now time.Time, cfg *Config, reason string) {
	u.requests.Inc()
	missed, ok := u.lines.Allow(now, time.Minute)
	if !ok || cfg.Log == nil {
		return
	}
	outcome := "refused"
	if cfg.AdmitUndescribed {
		outcome = "admitted"
	}
	cfg.Log.Warn("Requests cannot be described", "outcome", outcome, "count", missed+1, "latest", reason)
}

func (u *undescribed) register(set *metric.Set) {
	set.Counter("ratelimiter_check_undescribed_total",
		"described requests that were admitted or refused as DECISION_UNDESCRIBED says", u.requests.Load)
}
