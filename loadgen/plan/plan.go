// Package plan turns the test configuration that users write into a Plan: what to send,
// when, over how many connections, and which thresholds the result must meet.
//
// A Plan is complete and valid, so it can be run without the configuration. All faults of
// a configuration are reported together, each with its path and line.
package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/data/strict"
	"weir/internal/net/http1"
	"weir/loadgen/pace"
	"weir/loadgen/profile"
	"weir/loadgen/record"
)

// Bounds of the configuration.
const (
	durationMin       = time.Millisecond
	durationMax       = 7 * 24 * time.Hour
	concurrencyMax    = 60_000 // what the loops let wait to be dialled at a time
	streamsMax        = 10_000 // far more than targets allow
	streamsDefault    = 100    // targets should allow as many (RFC 9113 section 6.5.2)
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
	Config   Config   // with all defaults filled in
	Warnings []string // what was accepted and has no effect

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
	Protocol  Protocol
	Request   Request // in the form of HTTP/1.1
	KeepAlive bool
	GRPC      bool          // requests are unary calls of gRPC
	Timeout   time.Duration // of a request, from sending to the last byte

	Connections int // 0: as many as it takes
	Streams     int // requests in progress on a connection, at most; with HTTP/1.1 1
	Thresholds  []record.Threshold
}

// Parse parses a configuration. A configuration {"config":"name"} is read from the file
// name.json in folder, and a trace relative to folder; beside config, only fields that are null
// are allowed. now is the wall clock's time, for startAt.
//
// An error is a strict.Fault or strict.Faults.
func Parse(now time.Time, data []byte, folder string) (*Plan, error) {
	b, err := read(data, folder)
	if err == nil && b.document.Name != nil {
		b, err = b.named()
	}
	if err != nil {
		return nil, err
	}
	b.now, b.plan = now, &Plan{Config: b.document.Config}
	if b.document.RequestsPerThread != nil {
		b.warn("requestsPerThread has no effect: there are no threads, requests are sent when they are due")
	}
	if b.build(); b.Count() > 0 {
		return nil, b.Err()
	}
	return b.plan, nil
}

// A builder makes a Plan of a document and collects faults.
type builder struct {
	strict.Reader
	document document
	folder   string // where traces and named configurations are
	now      time.Time
	plan     *Plan
	compiler compiler
}

const missing = "is missing"

func (b *builder) build() {
	p := b.plan
	c := &p.Config
	length := b.seconds("duration", c.Duration, durationMin, durationMax)
	host, target := b.target(c.LimiterURL)
	arrivals := b.profile(&c.Profile, length)
	b.shard(&c.Shard)
	b.startAt(c.StartAt)
	b.thresholds(c.Thresholds)
	b.options(&c.RequestOptions)
	b.protocol(c)
	p.Request = b.request(host, target)
	if p.Connections = c.Concurrency; c.Concurrency < 0 || c.Concurrency > concurrencyMax {
		b.Fault("concurrency", "must be from 0 (chosen) to %d, is %d", concurrencyMax, c.Concurrency)
	}
	if b.Count() > 0 {
		return
	}
	p.Schedule = pace.New(pace.Config{
		Profile: p.Profile, Length: length, Arrivals: arrivals, Seed: c.Seed, Shard: c.Shard,
	})
	p.ScheduleHash = p.hash(arrivals, length)
}

// A Protocol is what requests are sent with.
type Protocol uint8

const (
	HTTP1 Protocol = iota // HTTP/1.1
	H2C                   // HTTP/2 without TLS, by prior knowledge
	H2                    // HTTP/2 over TLS, by ALPN
)

// String returns the protocol as configurations have it.
func (p Protocol) String() string { return [...]string{"http1", "h2c", "h2"}[p] }

// protocol parses how requests are sent, after the target and the options.
func (b *builder) protocol(c *Config) {
	p := b.plan
	p.Streams = 1
	i := slices.IndexFunc([]Protocol{HTTP1, H2C, H2}, func(p Protocol) bool { return p.String() == c.Protocol })
	if i < 0 {
		b.Fault("protocol", "must be http1, h2c or h2, is %q", c.Protocol)
		return
	}
	switch p.Protocol = Protocol(i); {
	case p.Protocol == HTTP1:
		b.Check(c.Streams != 0, "streams", "must be 0 with HTTP/1.1, which has one request at a time on a connection")
		b.Check(p.GRPC, "requestOptions.grpc", "needs protocol h2c or h2")
		return
	case c.Streams < 0 || c.Streams > streamsMax:
		b.Fault("streams", "must be from 0 (%d) to %d, is %d", streamsDefault, streamsMax, c.Streams)
	case p.Protocol == H2C && p.Secure:
		b.Fault("protocol", "must be h2 for an https URL, is h2c")
	case p.Protocol == H2 && !p.Secure && p.Host != "":
		b.Fault("protocol", "must be h2c for an http URL, is h2")
	}
	b.Check(!p.KeepAlive, "requestOptions.keepAlive", "must be true with HTTP/2")
	p.Streams = cmp.Or(c.Streams, streamsDefault)
}

// hash returns the digest of everything that all shards of a schedule must agree on: the
// shape, what is drawn from the seed, the length, the number of shards, and the start.
func (p *Plan) hash(arrivals pace.Process, length time.Duration) string {
	text := fmt.Appendf(nil, "weir schedule 1\narrivals %s\nseed %d\nduration %d\nof %d\n",
		arrivals, p.Config.Seed, length, p.Config.Shard.Of)
	if !p.StartAt.IsZero() {
		text = fmt.Appendf(text, "start %d\n", p.StartAt.UnixNano())
	}
	sum := sha256.Sum256(p.Profile.AppendShape(text))
	return hex.EncodeToString(sum[:scheduleHashBytes])
}

// seconds returns the span v, which is required and must be from low to high.
func (b *builder) seconds(path string, v float64, low, high time.Duration) time.Duration {
	switch {
	case math.IsNaN(v):
		b.Fault(path, missing)
		return low
	case v < low.Seconds() || v > high.Seconds():
		b.Fault(path, "must be from %g to %g seconds, is %g", low.Seconds(), high.Seconds(), v)
	}
	return time.Duration(math.Round(min(max(v, low.Seconds()), high.Seconds()) * float64(time.Second)))
}

func (b *builder) shard(s *pace.Shard) {
	switch field, fault := s.Validate(); {
	case !b.has("shard"): // there is only one
	case !b.has("shard", "index"):
		b.Fault("shard.index", missing)
	case !b.has("shard", "of"):
		b.Fault("shard.of", missing)
	case fault != "":
		b.Fault("shard."+field, "%s", fault)
	case s.Of == 0:
		b.Fault("shard.of", "must be at least 1, is 0")
	}
}

func (b *builder) startAt(text string) {
	if text == "" {
		return
	}
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		b.Fault("startAt", "must be a time like 2026-01-19T16:30:00Z, is %q", text)
	case b.now.Sub(at) > startAtPast:
		b.Fault("startAt", "must not be in the past, is %s; now it is %s", text, b.now.UTC().Format(time.RFC3339))
	case at.Sub(b.now) > startAtMax:
		b.Fault("startAt", "must be within a year, is %s", text)
	}
	b.plan.StartAt = at
}

func (b *builder) thresholds(w map[string]string) {
	for _, name := range sortedKeys(w) {
		t, err := record.ParseThreshold(name, w[name])
		b.Check(err != nil, strict.MemberPath("thresholds", name), "%v", err)
		b.plan.Thresholds = append(b.plan.Thresholds, t)
	}
}
