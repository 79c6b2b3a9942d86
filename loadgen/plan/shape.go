package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/strict"
	"weir/loadgen/pace"
	"weir/loadgen/profile"
)

// shapes lists the profiles.
const shapes = "constant, burst, sinusoidal, poisson, ddos, ramp, steps or trace"

// A shape is a profile and how the plan describes it.
type shape struct {
	profile  *profile.Profile
	arrivals pace.Process
}

// profile parses the profile of a run of the given length. ok is false if it is invalid.
func (b *builder) profile(w *profileWire, length time.Duration) (s shape, ok bool) {
	if w == nil {
		b.fault("profile", missing)
		return s, false
	}
	s.arrivals = b.process(w)
	if w.Type == nil {
		b.fault("profile.type", missing)
		return s, false
	}
	before := len(b.faults)
	p, err := b.shape(*w.Type, w.Params, length)
	faults, _ := errors.AsType[strict.Faults](err)
	for _, f := range faults {
		b.fault("profile.params."+f.Path, "%s", f.Message)
	}
	if len(b.faults) > before {
		return s, false
	}
	s.profile = p
	b.plan.Profile = p
	b.plan.ProfileText = p.String()
	switch {
	case *w.Type == "poisson":
		b.plan.ProfileText = strings.Replace(p.String(), "constant (rps", "poisson (averageRps", 1)
	case s.arrivals == pace.Poisson:
		b.plan.ProfileText = strings.TrimSuffix(p.String(), ")") + ", arrivals=poisson)"
	}
	b.plan.Config.Profile.Type, b.plan.Config.Profile.Arrivals = *w.Type, s.arrivals.String()
	return s, true
}

// process parses the distribution of arrivals.
func (b *builder) process(w *profileWire) pace.Process {
	random := w.Type != nil && *w.Type == "poisson"
	switch {
	case w.Arrivals == "poisson" || w.Arrivals == "" && random:
		return pace.Poisson
	case random:
		b.fault("profile.arrivals", "must be poisson with type poisson, is %q", w.Arrivals)
	case w.Arrivals != "" && w.Arrivals != "uniform":
		b.fault("profile.arrivals", "must be uniform or poisson, is %q", w.Arrivals)
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

// shape parses the parameters of a profile. The profile is meaningless if there was a
// fault.
func (b *builder) shape(kind string, raw strict.Raw, length time.Duration) (*profile.Profile, error) {
	switch kind {
	case "steps":
		return b.steps(raw, length)
	case "trace":
		return b.trace(raw, length)
	}
	names, known := params[kind]
	if !known {
		b.fault("profile.type", "must be %s, is %q", shapes, kind)
		return nil, nil
	}
	v := b.numbers(kind, raw, names)
	if v == nil {
		return nil, nil
	}
	switch kind {
	case "burst":
		return profile.NewBurst(profile.Burst{BaseRps: v[0], SpikeRps: v[1], SpikeDuration: v[2], SpikePeriod: v[3]})
	case "sinusoidal":
		return profile.NewSinusoid(profile.Sinusoid{MinRps: v[0], MaxRps: v[1], Period: v[2]})
	case "ddos":
		f := profile.Flood{MinRps: v[0], MaxRps: v[1], MaxSpikeDuration: v[2], MinIdleTime: v[3], MaxIdleTime: v[4]}
		return profile.NewFlood(f, b.plan.Config.Seed, length)
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
func (b *builder) numbers(kind string, raw strict.Raw, names []string) []float64 {
	var given map[string]float64
	if !b.decode(kind, raw, &given, names...) {
		return nil
	}
	before := len(b.faults)
	echo := map[string]any{}
	for _, name := range sortedKeys(given) {
		echo[name] = given[name]
		if !slices.Contains(names, name) {
			b.fault(strict.Member("profile.params", name), "unknown parameter; %s has %s", kind, strings.Join(names, ", "))
		}
	}
	values := make([]float64, len(names))
	for i, name := range names {
		v, ok := given[name]
		if !ok {
			b.fault("profile.params."+name, missing)
		}
		values[i] = v
	}
	if len(b.faults) > before {
		return nil
	}
	b.plan.Config.Profile.Params = echo
	return values
}

// decode decodes the parameters of a profile, which have the given names.
func (b *builder) decode(kind string, raw strict.Raw, into any, names ...string) bool {
	if len(raw) == 0 {
		b.fault("profile.params", "is missing; %s has %s", kind, strings.Join(names, ", "))
		return false
	}
	err := strict.Decode(raw, into)
	if err != nil {
		b.faults = append(b.faults, strict.At("profile.params", err))
	}
	return err == nil
}

// steps parses the parameters of steps.
func (b *builder) steps(raw strict.Raw, length time.Duration) (*profile.Profile, error) {
	var w struct {
		Steps []struct {
			Rps      *float64 `json:"rps"`
			Duration *float64 `json:"duration"`
		} `json:"steps"`
	}
	if !b.decode("steps", raw, &w, "steps") {
		return nil, nil
	}
	if w.Steps == nil {
		b.fault("profile.params.steps", missing)
		return nil, nil
	}
	steps := make([]profile.Step, len(w.Steps))
	echo := make([]map[string]float64, len(w.Steps))
	before := len(b.faults)
	for i, s := range w.Steps {
		path := fmt.Sprintf("profile.params.steps[%d].", i)
		if s.Rps == nil {
			b.fault(path+"rps", missing)
		}
		if s.Duration == nil {
			b.fault(path+"duration", missing)
		}
		if s.Rps != nil && s.Duration != nil {
			steps[i] = profile.Step{Rps: *s.Rps, Duration: *s.Duration}
			echo[i] = map[string]float64{"rps": *s.Rps, "duration": *s.Duration}
		}
	}
	if len(b.faults) > before {
		return nil, nil
	}
	b.plan.Config.Profile.Params = map[string]any{"steps": echo}
	p, last, err := profile.NewSteps(steps)
	if err == nil && last < length {
		b.warn("the steps last %g s, the test %g s: the last step goes on until the end", last.Seconds(), length.Seconds())
	}
	return p, err
}

// warn records something that was accepted but may not be intended.
func (b *builder) warn(format string, args ...any) {
	b.plan.Warnings = append(b.plan.Warnings, fmt.Sprintf(format, args...))
}
