package serve

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"weir/advisor/core"
	"weir/advisor/policy"
	"weir/internal/data/strict"
)

// Bounds on the values of a snapshot.
const (
	intervalMin = time.Second
	rpsMax      = 1e9 // requests per second
	latencyMax  = 3600.0
	// More can be forwarded than arrives only if some requests had waited before.
	forwardedFactor = 2.0
	forwardedMore   = 10.0 // requests per second
	numberMax       = 1e12
	targetsMax      = 1e6
	nameBytesMax    = 200
	yearMin         = 1970
	yearMax         = 2200
)

// A request is the JSON of POST /v1/limit-config, and of the journal's records.
type request struct {
	Timestamp *time.Time `json:"timestamp"`
	Interval  *float64   `json:"interval"`
	Observed  *float64   `json:"observedRps"`
	Forwarded *float64   `json:"forwardedRps"`
	Rejected  *float64   `json:"rejectedRate"`
	Latency   *float64   `json:"latencyP95"`
	Errors    *float64   `json:"errors5xx"`
	policy.Limit
	Instance string `json:"instance,omitempty"`

	// Fields that older proxies do not send.
	Mode      string   `json:"mode,omitempty"`
	Store     string   `json:"store,omitempty"`
	Delivered *float64 `json:"deliveredRps,omitempty"`
	Ended     *float64 `json:"ended,omitempty"`
	InFlight  *float64 `json:"inFlight,omitempty"`
	GateLimit *float64 `json:"gateLimit,omitempty"`
	GateShare *float64 `json:"gateShare,omitempty"`
	Targets   *float64 `json:"healthyTargets,omitempty"`
}

// The words in a snapshot. The first is the default.
var (
	modes  = []string{policy.Normal: "normal", policy.FailOpen: "failopen", policy.Shadow: "shadow"}
	stores = []string{"shared", "local"}
)

// readSnapshot parses the body of a request, or a record. The error is a strict.Fault, or
// strict.Faults.
func readSnapshot(body []byte) (core.Snapshot, error) {
	var r request
	if err := strict.DecodeIgnoringUnknown(body, &r); err != nil {
		return core.Snapshot{}, err
	}
	return r.snapshot()
}

// record returns s in the form of the journal.
func record(s *core.Snapshot) []byte {
	seconds := s.Interval.Seconds()
	r := request{
		Timestamp: &s.At, Interval: &seconds, Observed: &s.Observed, Forwarded: &s.Forwarded, Rejected: &s.Rejected,
		Latency: &s.P95, Errors: &s.Errors, Limit: s.Limit, Instance: s.Instance,
		Mode: modes[s.Mode], Delivered: &s.Delivered, Ended: &s.Ended, GateLimit: &s.GateLimit, GateShare: &s.GateShare,
		InFlight: &s.InFlight,
	}
	if s.OwnStore {
		r.Store = stores[1]
	}
	data, err := json.Marshal(r)
	if err != nil {
		panic("bug: a checked snapshot has no JSON: " + err.Error())
	}
	return data
}

// A check collects the faults of a request.
type check struct{ strict.Reader }

// number checks a required field, from min to max.
func (c *check) number(path string, v *float64, min, max float64) float64 {
	switch {
	case v == nil:
		c.Fault(path, "is missing")
		return 0
	case !(*v >= min && *v <= max):
		c.Fault(path, "must be from %v to %v, is %v", min, max, *v)
	}
	return *v
}

// optional checks a number that may be absent or 0, up to max.
func (c *check) optional(path string, v *float64, max float64) float64 {
	if v == nil {
		return 0
	}
	return c.number(path, v, 0, max)
}

// word returns the index of a word in a list; absent: 0.
func (c *check) word(path, v string, list []string) int {
	at := slices.Index(list, v)
	if at < 0 && v != "" {
		c.Fault(path, "must be one of %s, is %q", strings.Join(list, ", "), v)
	}
	return max(at, 0)
}

// snapshot checks r.
func (r *request) snapshot() (core.Snapshot, error) {
	var c check
	s := core.Snapshot{Instance: r.Instance}
	switch {
	case r.Timestamp == nil:
		c.Fault("timestamp", "is missing")
	case r.Timestamp.Year() < yearMin || r.Timestamp.Year() > yearMax:
		c.Fault("timestamp", "must be in the years %d to %d, is %s", yearMin, yearMax, r.Timestamp.Format(time.RFC3339))
	default:
		s.At = r.Timestamp.UTC()
	}
	s.Interval = seconds(c.number("interval", r.Interval, intervalMin.Seconds(), core.IntervalMax.Seconds()))
	s.Observed = c.number("observedRps", r.Observed, 0, rpsMax)
	s.Forwarded = c.number("forwardedRps", r.Forwarded, 0, rpsMax)
	if most := forwardedFactor*s.Observed + forwardedMore; c.Count() == 0 && s.Forwarded > most {
		c.Fault("forwardedRps", "must be at most %v with an observedRps of %v, is %v", most, s.Observed, s.Forwarded)
	}
	s.Rejected = c.number("rejectedRate", r.Rejected, 0, 1)
	s.P95 = c.number("latencyP95", r.Latency, 0, latencyMax)
	s.Errors = c.number("errors5xx", r.Errors, 0, 1)
	s.Limit = r.limit(&c)
	c.Check(len(r.Instance) > nameBytesMax, "instance", "is longer than %d bytes", nameBytesMax)
	r.gates(&c, &s)
	return s, c.Err()
}

// gates checks the fields that older proxies do not send. The advisor does not use
// healthyTargets.
func (r *request) gates(c *check, s *core.Snapshot) {
	s.Mode = policy.Mode(c.word("mode", r.Mode, modes))
	s.OwnStore = c.word("store", r.Store, stores) > 0
	s.InFlight = c.optional("inFlight", r.InFlight, numberMax)
	s.GateLimit = c.optional("gateLimit", r.GateLimit, numberMax)
	s.GateShare = c.optional("gateShare", r.GateShare, 1)
	c.optional("healthyTargets", r.Targets, targetsMax)
	s.Delivered = c.optional("deliveredRps", r.Delivered, rpsMax)
	s.Ended = c.optional("ended", r.Ended, numberMax)
	if r.Ended == nil && (s.P95 > 0 || s.Errors > 0) {
		s.Ended = s.Forwarded * s.Interval.Seconds()
	}
}

// seconds converts v to a Duration.
func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// limit checks the limit in force: what its algorithm needs is required.
func (r *request) limit(c *check) policy.Limit {
	l := r.Limit
	for _, f := range l.Numbers() {
		c.number(f.Name, &f.Value, 0, numberMax)
		c.Check(f.Needed && f.Value == 0, f.Name, "is missing or 0; algorithm %s needs it", l.Algorithm)
	}
	c.Check(l.Algorithm == "", "algorithm", "is missing")
	c.Check(len(l.Algorithm) > nameBytesMax, "algorithm", "is longer than %d bytes", nameBytesMax)
	return l
}
