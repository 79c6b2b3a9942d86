package policy

import (
	"fmt"
	"slices"
	"time"
)

// A Reason is why a limit is recommended: a code, and a sentence, which numbers may complete.
type Reason struct{ Code, sentence string }

// The reasons.
var (
	Hold          = Reason{"hold", "the limit fits"}
	ForecastRise  = Reason{"forecast_rise", "raised ahead of it"}
	Refusing      = Reason{"refusing", "refused while the target is healthy"} // so it is raised
	AtCapacity    = Reason{"capacity", "the target can serve "}               // not raised, or lowered
	Unproven      = Reason{"unproven", "the target has not yet proven to serve more"}
	Overload      = Reason{"overload", "the target is overloaded"}
	Slow          = Reason{"slow", "the target becomes slow"} // lowered a little, or not raised
	Recovering    = Reason{"recovering", "the target works off a queue, the limit stays"}
	BackendFault  = Reason{"backend_fault", "the target fails for reasons other than load, which limits cannot change"}
	StepLimited   = Reason{"step_limited", ""} // more follows with the next update; never the first reason
	BoundMin      = Reason{"bound_min", "the bounds allow no other limit"}
	BoundMax      = Reason{"bound_max", "the bounds allow no other limit"}
	NotEnforced   = Reason{"not_enforced", "the limit did not decide what was forwarded, it stays"}
	NoForecast    = Reason{"no_forecast", "no forecast yet, the limit stays"}
	LittleTraffic = Reason{"little_traffic", "too little traffic to learn from, the limit stays"}
	LimiterOff    = Reason{"limiter_off", "the limiter is off and stays off"}
	Stale         = Reason{"stale", "the snapshot is not newer than the last, the limit stays"}
	InvalidInput  = Reason{"invalid_input", "the snapshot has impossible numbers, the limit stays"}
)

const (
	validForMax  = 10 * time.Minute
	shortageSpan = 20 * time.Minute // how far ahead a shortage is looked for: the time needed to start more instances
	sure         = 0.5              // confidence in the capacity from which a shortage is reported
)

// recommend assembles the recommendation.
func (p *Policy) recommend(r reading, o DemandForecast, t target) Recommendation {
	out := Recommendation{Limit: r.Limit, Confidence: p.st.Capacity.Confidence, GateMax: p.gateMax()}
	if t.rate == r.rate {
		t.reasons = slices.Insert(t.reasons, 0, Hold)
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
		t.because(NoForecast)
	}
	for _, why := range t.reasons {
		out.Codes = append(out.Codes, why.Code)
	}
	out.Reason = p.explain(r, out, t.reasons)
	p.st.Advised = out.Limit
	return out
}

// shortage computes Recommendation.Shortage.
func (p *Policy) shortage(o DemandForecast) time.Duration {
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

// explain returns the reasons in one sentence.
func (p *Policy) explain(r reading, out Recommendation, reasons []Reason) string {
	why := reasons[0]
	if why == Hold && len(reasons) > 1 {
		why = reasons[1]
	}
	forecast := "forecast=" + digits(out.PredictedRPS) + " req/s, "
	switch why {
	case Overload, Slow, BackendFault:
		return fmt.Sprintf("%s (p95=%.3g s of %.3g s, errors=%.1f %%)", why.sentence, r.p95, p.SLO(), 100*r.Errors)
	case AtCapacity:
		return forecast + why.sentence + digits(p.st.Capacity.Q50) + " req/s"
	case Refusing:
		return fmt.Sprintf("%s%.1f %% %s", forecast, 100*r.RejectedShare, why.sentence)
	case ForecastRise, Hold, Unproven, Recovering:
		return forecast + why.sentence
	}
	return why.sentence
}

// digits formats a rate with three digits, without an exponent.
func digits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
