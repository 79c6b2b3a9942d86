// Package plan turns the test configuration that users write into a Plan: what to send,
// when, over how many connections, and which thresholds the result must meet.
//
// A Plan is complete and valid, so it can be run without the configuration. All faults of
// a configuration are reported together, each with its path.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"weir/internal/http1"
	"weir/internal/strict"
	"weir/loadgen/pace"
	"weir/loadgen/profile"
	"weir/loadgen/record"
)

// Bounds of the configuration.
const (
	durationMin       = time.Millisecond
	durationMax       = 7 * 24 * time.Hour
	concurrencyMax    = 60_000 // what the loops let wait to be dialled at a time
	timeoutMin        = time.Millisecond
	timeoutMax        = 5 * time.Minute
	timeoutDefault    = 5 * time.Second
	startAtMax        = 366 * 24 * time.Hour // ahead
	startAtPast       = time.Second          // how late a start may be asked for
	configBytesMax    = 4 << 20
	scheduleHashBytes = 8
)

// A Plan is a validated test.
//
// Immutable after Parse.
type Plan struct {
	// Config is the configuration with all defaults filled in.
	Config Config
	// Warnings lists what was accepted and has no effect.
	Warnings []string

	Profile     *profile.Profile
	ProfileText string // the profile with its arrivals, as the log shows it
	Schedule    pace.Schedule
	// ScheduleHash is equal for all generators that have the same whole schedule, and
	// different for others.
	ScheduleHash string
	StartAt      time.Time // zero: at once

	Host      string // to connect to: a name or an address
	Port      string
	Secure    bool // by TLS: limiterUrl is https
	Method    http1.Method
	Request   Request
	KeepAlive bool
	Timeout   time.Duration // of a request, from sending to the last byte

	Connections int // 0: as many as it takes
	Thresholds  []record.Threshold
}

// Parse parses a configuration. A configuration {"config":"name"} is read from the file
// name.json in folder, and a trace relative to folder. now is the wall clock's time, for
// startAt.
//
// Errors are of strict.Fault, or several of these joined.
func Parse(now time.Time, data []byte, folder string) (*Plan, error) {
	var w wire
	if err := strict.Decode(data, &w); err != nil {
		return nil, err
	}
	if w.Config != nil {
		named, err := readNamed(&w, folder)
		if err != nil {
			return nil, err
		}
		w = wire{}
		if err := strict.Decode(named, &w); err != nil {
			return nil, err
		}
		if w.Config != nil {
			return nil, strict.Fault{Path: "config", Message: "must not be used in a configuration that was itself named so"}
		}
	}
	b := builder{now: now, folder: folder, plan: &Plan{}}
	b.build(&w)
	if len(b.faults) > 0 {
		return nil, errors.Join(b.faults...)
	}
	return b.plan, nil
}

// A builder fills in a Plan and collects faults.
type builder struct {
	now      time.Time
	folder   string // where traces are
	plan     *Plan
	compiler compiler
	faults   []error
}

// fault records that the value at path is wrong.
func (b *builder) fault(path, format string, args ...any) {
	b.faults = append(b.faults, strict.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

const missing = "is missing"

func (b *builder) build(w *wire) {
	p := b.plan
	p.Config = Config{
		Duration: b.seconds("duration", w.Duration, durationMin, durationMax),
		Seed:     w.Seed, StartAt: w.StartAt,
	}
	length := time.Duration(math.Round(p.Config.Duration * float64(time.Second)))
	length = min(max(length, durationMin), durationMax)
	draft := b.target(w.LimiterURL)
	shape, ok := b.profile(w.Profile, length)
	shard := b.shard(w.Shard)
	b.connections(w)
	b.startAt(w.StartAt)
	b.thresholds(w.Thresholds)
	b.options(w.RequestOptions, &draft)
	if len(b.faults) > 0 || !ok {
		return
	}
	p.Request = draft.request(w.Seed)
	p.Schedule = pace.New(pace.Config{
		Profile: shape.profile, Length: length, Arrivals: shape.arrivals, Seed: w.Seed, Shard: shard,
	})
	p.ScheduleHash = p.hash(shape, length)
}

// hash returns the digest of everything that all shards of a schedule must agree on: the
// shape, what is drawn from the seed, the length, the number of shards, and the start.
func (p *Plan) hash(s shape, length time.Duration) string {
	text := fmt.Appendf(nil, "weir schedule 1\narrivals %s\nseed %d\nduration %d\nof %d\n",
		s.arrivals, p.Config.Seed, length, p.Config.Shard.Of)
	if !p.StartAt.IsZero() {
		text = fmt.Appendf(text, "start %d\n", p.StartAt.UnixNano())
	}
	sum := sha256.Sum256(s.profile.AppendShape(text))
	return hex.EncodeToString(sum[:scheduleHashBytes])
}

// seconds is the required span v, from low to high.
func (b *builder) seconds(path string, v *float64, low, high time.Duration) float64 {
	switch {
	case v == nil:
		b.fault(path, missing)
		return 0
	case *v < low.Seconds() || *v > high.Seconds():
		b.fault(path, "must be from %g to %g seconds, is %g", low.Seconds(), high.Seconds(), *v)
	}
	return *v
}

func (b *builder) shard(w *shardWire) pace.Shard {
	s := pace.Shard{Of: 1}
	if w != nil {
		switch {
		case w.Index == nil:
			b.fault("shard.index", missing)
		case w.Of == nil:
			b.fault("shard.of", missing)
		default:
			s = pace.Shard{Index: *w.Index, Of: *w.Of}
			if field, fault := s.Validate(); fault != "" {
				b.fault("shard."+field, "%s", fault)
			} else if s.Of == 0 {
				b.fault("shard.of", "must be at least 1, is 0")
			}
		}
	}
	b.plan.Config.Shard = ShardConfig{Index: s.Index, Of: s.Of}
	return s
}

func (b *builder) connections(w *wire) {
	if w.Concurrency < 0 || w.Concurrency > concurrencyMax {
		b.fault("concurrency", "must be from 0 (chosen) to %d, is %d", concurrencyMax, w.Concurrency)
	}
	b.plan.Connections = w.Concurrency
	b.plan.Config.Concurrency = w.Concurrency
	if w.RequestsPerThread != nil {
		b.warn("requestsPerThread has no effect: there are no threads, requests are sent when they are due")
	}
}

func (b *builder) startAt(text string) {
	if text == "" {
		return
	}
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		b.fault("startAt", "must be a time like 2026-01-19T16:30:00Z, is %q", text)
	case b.now.Sub(at) > startAtPast:
		b.fault("startAt", "must not be in the past, is %s; now it is %s", text, b.now.UTC().Format(time.RFC3339))
	case at.Sub(b.now) > startAtMax:
		b.fault("startAt", "must be within a year, is %s", text)
	}
	b.plan.StartAt = at
}

func (b *builder) thresholds(w map[string]string) {
	b.plan.Config.Thresholds = map[string]string{}
	for _, name := range sortedKeys(w) {
		t, err := record.ParseThreshold(name, w[name])
		path := strict.Member("thresholds", name)
		switch {
		case errors.Is(err, record.ErrThresholdName):
			b.fault(path, "%v", err)
		case err != nil:
			b.fault(path, "%v, is %q", err, w[name])
		}
		b.plan.Thresholds = append(b.plan.Thresholds, t)
		b.plan.Config.Thresholds[name] = w[name]
	}
}
