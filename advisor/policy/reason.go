package policy

import (
	"fmt"
	"time"
)

// The reason codes.
const (
	Hold          = "hold"          // nothing asks for a change
	ForecastRise  = "forecast_rise" // raised ahead of a predicted rise
	Refusing      = "refusing"      // raised because the limit refuses while the target is healthy
	AtCapacity    = "capacity"      // not raised, or lowered: it is the target's capacity
	Unproven      = "unproven"      // raised only so far beyond the rate that the target has proven to serve
	Overload      = "overload"      // lowered because the target suffers
	Slow          = "slow"          // lowered a little because the target becomes slow, or not raised
	Recovering    = "recovering"    // an earlier queue is worked off
	BackendFault  = "backend_fault" // the target fails for reasons other than load
	StepLimited   = "step_limited"  // more follows with the next update
	BoundMin      = "bound_min"
	BoundMax      = "bound_max"
	NotEnforced   = "not_enforced" // the limit did not decide
	NoForecast    = "no_forecast"
	LittleTraffic = "little_traffic"
	LimiterOff    = "limiter_off"
	Stale         = "stale"         // the snapshot is not newer than the last
	InvalidInput  = "invalid_input" // the snapshot is impossible
)

const (
	validForMax  = 10 * time.Minute
	shortageSpan = 20 * time.Minute // how far ahead a shortage is looked for: the time needed to start more instances
	sure         = 0.5              // confidence in the capacity from which a shortage is reported
)

// recommend assembles the recommendation.
func (p *Policy) recommend(r reading, o Outlook, t target) Recommendation {
	out := Recommendation{Limit: r.Limit, Codes: t.codes, Confidence: p.st.Capacity.Confidence, GateMax: p.gateMax()}
	if t.rate == r.rate {
		out.Codes = append([]string{Hold}, out.Codes...)
	} else {
		out.Limit = p.set.scaled(r.Limit, t.rate)
	}
	enough := time.Duration(0) // how long the limit exceeds the expected demand
	for _, q := range o.within(validForMax) {
		if headroom*q.Q95 > t.rate {
			break
		}
		enough += o.Step
	}
	out.ValidFor = max(min(2*time.Duration(r.dt*float64(time.Second)), validForMax), enough)
	out.PredictedRPS, out.Predicted95 = r.demand, r.demand
	for i, q := range o.within(max(out.ValidFor, o.Step)) {
		if i == 0 {
			out.PredictedRPS, out.Predicted95 = 0, 0
		}
		out.PredictedRPS = max(out.PredictedRPS, q.Q50)
		out.Predicted95 = max(out.Predicted95, q.Q95)
	}
	out.Shortage = p.shortage(o)
	if len(o.Points) == 0 {
		out.Codes = append(out.Codes, NoForecast)
	}
	out.Reason = p.explain(r, out)
	p.st.Advised = out.Limit
	return out
}

// shortage computes Recommendation.Shortage.
func (p *Policy) shortage(o Outlook) time.Duration {
	if p.st.Capacity.Confidence < sure {
		return 0
	}
	for i, q := range o.within(shortageSpan) {
		if q.Q95 > p.st.Capacity.Q50 {
			return time.Duration(i+1) * o.Step
		}
	}
	return 0
}

// explain returns the reason in one sentence.
func (p *Policy) explain(r reading, out Recommendation) string {
	code := out.Codes[0]
	if code == Hold && len(out.Codes) > 1 {
		code = out.Codes[1]
	}
	forecast := "forecast=" + digits(out.PredictedRPS) + " req/s, "
	switch code {
	case Overload, Slow, BackendFault:
		return fmt.Sprintf("%s (p95=%.3g s of %.3g s, errors=%.1f %%)", sentences[code], r.p95, p.SLO(), 100*r.Errors)
	case AtCapacity:
		return forecast + sentences[code] + digits(p.st.Capacity.Q50) + " req/s"
	case Refusing:
		return fmt.Sprintf("%s%.1f %% %s", forecast, 100*r.RejectedShare, sentences[code])
	case ForecastRise, Hold, Unproven, Recovering:
		return forecast + sentences[code]
	}
	return sentences[code]
}

// sentences explain the codes. Some are completed by numbers.
var sentences = map[string]string{
	Hold:          "the limit fits",
	ForecastRise:  "raised ahead of it",
	Refusing:      "refused while the target is healthy",
	AtCapacity:    "the target can serve ",
	Unproven:      "the target has not yet proven to serve more",
	Overload:      "the target is overloaded",
	Slow:          "the target becomes slow",
	Recovering:    "the target works off a queue, the limit stays",
	BackendFault:  "the target fails for reasons other than load, which limits cannot change",
	BoundMin:      "the bounds allow no other limit",
	BoundMax:      "the bounds allow no other limit",
	NotEnforced:   "the limit did not decide what was forwarded, it stays",
	NoForecast:    "no forecast yet, the limit stays",
	LittleTraffic: "too little traffic to learn from, the limit stays",
	LimiterOff:    "the limiter is off and stays off",
	Stale:         "the snapshot is not newer than the last, the limit stays",
	InvalidInput:  "the snapshot has impossible numbers, the limit stays",
}

// digits formats a rate with three digits, without an exponent.
func digits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
