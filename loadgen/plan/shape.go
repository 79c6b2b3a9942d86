package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/data/strict"
	"weir/loadgen/pace"
	"weir/loadgen/profile"
)

// shapes lists the profiles.
const shapes = "constant, burst, sinusoidal, poisson, ddos, ramp, steps or trace"

// profile parses the profile of a run of the given length, and returns its arrivals.
func (b *builder) profile(w *ProfileConfig, length time.Duration) pace.Process {
	if !b.has("profile") {
		b.Fault("profile", missing)
		return pace.Uniform
	}
	arrivals := b.process(w)
	if !b.has("profile", "type") {
		b.Fault("profile.type", missing)
		return arrivals
	}
	p, err := b.shape(w, length)
	b.AddFaults("profile.params", err)
	if p == nil {
		return arrivals
	}
	b.plan.Profile, b.plan.ProfileText = p, p.String()
	switch {
	case w.Type == "poisson":
		b.plan.ProfileText = strings.Replace(p.String(), "constant (rps", "poisson (averageRps", 1)
	case arrivals == pace.Poisson:
		b.plan.ProfileText = strings.TrimSuffix(p.String(), ")") + ", arrivals=poisson)"
	}
	w.Arrivals = arrivals.String()
	return arrivals
}

func (b *builder) process(w *ProfileConfig) pace.Process {
	random := w.Type == "poisson"
	switch {
	case w.Arrivals == "poisson" || w.Arrivals == "" && random:
		return pace.Poisson
	case random:
		b.Fault("profile.arrivals", "must be poisson with type poisson, is %q", w.Arrivals)
	case w.Arrivals != "" && w.Arrivals != "uniform":
		b.Fault("profile.arrivals", "must be uniform or poisson, is %q", w.Arrivals)
	}
	return pace.Uniform
}

// params are the parameters of the profiles that have only numbers.
var params = map[string][]string{
	"constant":   {"rps"},
	"poisson":    {"averageRps"},
	"burst":      {"baseRps", "spikeRps", "spikeDuration", "spikePeriod"},
	"sinusoidal": {"minRps", "maxRps", "period"},
	"ddos":       {"minRps", "maxRps", "maxSpikeDuration", "minIdleTime", "maxIdleTime"},
	"ramp":       {"startRps", "endRps"},
}

// shape parses the parameters of a profile, which is nil if there was a fault.
func (b *builder) shape(w *ProfileConfig, length time.Duration) (*profile.Profile, error) {
	switch w.Type {
	case "steps":
		return b.steps(w, length)
	case "trace":
		return b.trace(w, length)
	}
	names, known := params[w.Type]
	if !known {
		b.Fault("profile.type", "must be %s, is %q", shapes, w.Type)
		return nil, nil
	}
	v := b.numbers(w, names)
	if v == nil {
		return nil, nil
	}
	switch w.Type {
	case "burst":
		return profile.NewBurst(profile.Burst{BaseRps: v[0], SpikeRps: v[1], SpikeDuration: v[2], SpikePeriod: v[3]})
	case "sinusoidal":
		return profile.NewSinusoid(profile.Sinusoid{MinRps: v[0], MaxRps: v[1], Period: v[2]})
	case "ddos":
		f := profile.DDoS{MinRps: v[0], MaxRps: v[1], MaxSpikeDuration: v[2], MinIdleTime: v[3], MaxIdleTime: v[4]}
		return profile.NewDDoS(f, b.plan.Config.Seed, length)
	case "ramp":
		return profile.NewRamp(v[0], v[1], length)
	}
	p, err := profile.NewConstant(v[0])
	if faults, ok := errors.AsType[strict.Faults](err); ok {
		faults[0].Path = names[0]
	}
	return p, err
}

// numbers parses parameters that are numbers, all of which are required. It returns nil
// if there was a fault.
func (b *builder) numbers(w *ProfileConfig, names []string) []float64 {
	var given map[string]float64
	if !decode(b, w, &given, names...) {
		return nil
	}
	before := b.Count()
	for _, name := range sortedKeys(given) {
		b.Check(!slices.Contains(names, name), strict.MemberPath("profile.params", name), "unknown parameter; %s has %s",
			w.Type, strings.Join(names, ", "))
	}
	values := make([]float64, len(names))
	for i, name := range names {
		v, ok := given[name]
		b.Check(!ok, "profile.params."+name, missing)
		values[i] = v
	}
	if b.Count() > before {
		return nil
	}
	return values
}

// decode decodes the parameters of a profile, which have the given names, over what into has,
// and replaces them by that, with their defaults.
func decode[T any](b *builder, w *ProfileConfig, into *T, names ...string) bool {
	if w.Params == nil {
		b.Fault("profile.params", "is missing; %s has %s", w.Type, strings.Join(names, ", "))
		return false
	}
	good := b.Decode(b.Root.Member("profile").Member("params"), "profile.params", into)
	w.Params = *into
	return good
}

// stepsParams are the parameters of steps.
type stepsParams struct {
	Steps []struct {
		Duration *float64 `json:"duration"`
		Rps      *float64 `json:"rps"`
	} `json:"steps"`
}

func (b *builder) steps(raw *ProfileConfig, length time.Duration) (*profile.Profile, error) {
	var w stepsParams
	if !decode(b, raw, &w, "steps") {
		return nil, nil
	}
	if w.Steps == nil {
		b.Fault("profile.params.steps", missing)
		return nil, nil
	}
	steps := make([]profile.Step, len(w.Steps))
	before := b.Count()
	for i, s := range w.Steps {
		path := fmt.Sprintf("profile.params.steps[%d].", i)
		b.Check(s.Rps == nil, path+"rps", missing)
		b.Check(s.Duration == nil, path+"duration", missing)
		if s.Rps != nil && s.Duration != nil {
			steps[i] = profile.Step{Rps: *s.Rps, Duration: *s.Duration}
		}
	}
	if b.Count() > before {
		return nil, nil
	}
	p, last, err := profile.NewSteps(steps)
	if err == nil && last < length {
		b.warn("the steps last %g s, the test %g s: the last step continues until the end", last.Seconds(), length.Seconds())
	}
	return p, err
}

// warn records something that was accepted but may not be intended.
func (b *builder) warn(format string, args ...any) {
	b.plan.Warnings = append(b.plan.Warnings, fmt.Sprintf(format, args...))
}
