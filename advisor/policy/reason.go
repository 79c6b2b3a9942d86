package policy

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The reason codes.
const (
	Hold             = "hold"              // nothing asks for a change
	ForecastRise     = "forecast_rise"     // raised ahead of a predicted rise
	ForecastOverload = "forecast_overload" // lowered ahead of a predicted overload
	AtCapacity       = "capacity"          // held down by what the target can take
	Refusing         = "refusing"          // raised because the limit refuses while the target is at ease
	Overload         = "overload"          // lowered because the target suffers
	Slow             = "slow"              // lowered a little because the target gets slow
	Rollback         = "rollback"          // a raise was too much
	BackendFault     = "backend_fault"     // the target fails for another reason than load
	Recovering       = "recovering"        // no raise yet after an overload
	Starting         = "starting"          // the first snapshots are watched
	Unproven         = "unproven"          // only a little beyond what the target has shown to take
	Blocked          = "blocked"           // raises stay below a rate that failed lately
	StepLimited      = "step_limited"      // more follows with the next update
	BoundMin         = "bound_min"
	BoundMax         = "bound_max"
	AlgorithmSwitch  = "algorithm_switch"
	NoForecast       = "no_forecast"
	LittleTraffic    = "little_traffic"
	LimiterOff       = "limiter_off"
	Stale            = "stale"         // the snapshot is not newer than the last
	InvalidInput     = "invalid_input" // the snapshot cannot have happened
)

const validForMax = 10 * time.Minute

// recommend puts the answer together.
func (p *Policy) recommend(r reading, o Outlook, t target, limit Limit) Recommendation {
	out := Recommendation{Limit: limit, Codes: t.codes, Confidence: p.st.Capacity.Confidence}
	out.ValidFor = p.validFor(r, o, t)
	out.PredictedRPS, out.Predicted95 = r.demand, r.demand
	for i, q := range o.within(max(out.ValidFor, o.Step)) {
		if i == 0 {
			out.PredictedRPS, out.Predicted95 = 0, 0
		}
		out.PredictedRPS = max(out.PredictedRPS, q.Q50)
		out.Predicted95 = max(out.Predicted95, q.Q95)
	}
	if t.rate == r.rate && !slices.Contains(out.Codes, BackendFault) && !slices.Contains(out.Codes, Overload) {
		out.Codes = append([]string{Hold}, out.Codes...)
	}
	if len(o.Points) == 0 {
		out.Codes = append(out.Codes, NoForecast)
	}
	if r.n < thin/10 {
		out.Codes = append(out.Codes, LittleTraffic)
	}
	out.Reason = p.explain(r, t, out)
	p.st.Advised = limit
	return out
}

// validFor is how long the plan stays within 10 % of t.
func (p *Policy) validFor(r reading, o Outlook, t target) time.Duration {
	dt := time.Duration(r.dt * float64(time.Second))
	least := min(2*dt, validForMax)
	span := time.Duration(0)
	for _, q := range o.within(validForMax) {
		plan := min(max(t.rate, headroom*q.Q95), p.capFor(p.st.Capacity.Q20, q.Q50))
		if p.st.Capacity.Confidence < sure {
			plan = max(t.rate, headroom*q.Q95)
		}
		if math.Abs(plan/t.rate-1) > 0.1 {
			break
		}
		span += o.Step
	}
	if p.st.Belief.Alert > 0 {
		span /= 2
	}
	return min(max(span, least), validForMax)
}

// explain says why in one sentence.
func (p *Policy) explain(r reading, t target, out Recommendation) string {
	code := out.Codes[0]
	forecast := fmt.Sprintf("forecast=%s req/s", digits(out.PredictedRPS))
	has := func(code string) bool { return slices.Contains(out.Codes, code) }
	switch {
	case code == Overload, code == Rollback, code == Slow, code == BackendFault:
		return fmt.Sprintf("%s (p95=%.3g s of %.3g s, errors=%.1f %%)", sentence(code), r.p95, p.slo(), 100*r.errors)
	case code == ForecastOverload:
		return fmt.Sprintf("%s, the target can take %s req/s, lowered ahead of it", forecast, digits(t.cap))
	case code == AtCapacity:
		return fmt.Sprintf("%s, the target can take %s req/s", forecast, digits(t.cap))
	case code == ForecastRise && has(AtCapacity):
		return fmt.Sprintf("%s, raised as far as the target can take, %s req/s", forecast, digits(t.cap))
	case code == ForecastRise:
		return forecast + ", raised ahead of it"
	case code == Refusing:
		return fmt.Sprintf("%s, %.1f %% refused while the target is at ease", forecast, 100*r.refused)
	case has(LittleTraffic):
		return sentence(LittleTraffic)
	case has(Starting), has(Recovering), has(Blocked):
		return forecast + ", " + sentence(out.Codes[1])
	case code == Hold && has(AtCapacity):
		return fmt.Sprintf("%s, the target can take %s req/s, the limit stays", forecast, digits(t.cap))
	case has(NoForecast):
		return sentence(NoForecast)
	}
	return forecast + ", the limit fits"
}

func sentence(code string) string {
	switch code {
	case Overload:
		return "the target is overloaded"
	case Rollback:
		return "the last raise was too much"
	case Slow:
		return "the target gets slow"
	case BackendFault:
		return "the target fails for another reason than load, limits do not cure that"
	case Starting:
		return "still watching, the limit stays"
	case Recovering:
		return "the target was overloaded until just now, the limit stays"
	case Blocked:
		return "this much was too much lately, the limit stays"
	case Unproven:
		return "the target has not shown yet that it takes more"
	case AtCapacity:
		return "it is what the target can take"
	case BoundMin, BoundMax:
		return "the bounds allow no other"
	case AlgorithmSwitch:
		return "another algorithm suits the traffic better"
	case NoForecast:
		return "no forecast yet, the limit stays"
	case LittleTraffic:
		return "too little traffic to learn from, the limit stays"
	case LimiterOff:
		return "the limiter is off and stays off"
	case Stale:
		return "the snapshot is not newer than the last, the limit stays"
	case InvalidInput:
		return "the snapshot has impossible numbers, the limit stays"
	}
	return code
}

// digits prints a rate with three digits, without an exponent.
func digits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
