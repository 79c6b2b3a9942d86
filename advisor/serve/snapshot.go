package serve

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-json"

	"weir/advisor/policy"
	"weir/internal/strictjson"
)

// Bounds on what a snapshot can say.
const (
	intervalMin = time.Second
	intervalMax = 24 * time.Hour // a proxy that could not report for long tells all of it
	rpsMax      = 1e9            // requests per second
	latencyMax  = 3600.0
	// More can be let through than arrives only when some had to wait before.
	forwardedFactor = 2.0
	forwardedMore   = 10.0 // requests per second
	numberMax       = 1e12 // of the limit in force
	nameBytesMax    = 200
	yearMin         = 1970
	yearMax         = 2200
)

// A request is the JSON of POST /v1/limit-config. It is also what the journal
// keeps.
type request struct {
	Timestamp *time.Time `json:"timestamp"`
	Interval  *float64   `json:"interval"`
	Observed  *float64   `json:"observedRps"`
	Forwarded *float64   `json:"forwardedRps"`
	Rejected  *float64   `json:"rejectedRate"`
	Latency   *float64   `json:"latencyP95"`
	Errors    *float64   `json:"errors5xx"`
	Algorithm *string    `json:"algorithm"`
	Limit     *float64   `json:"limit,omitempty"`
	Window    *float64   `json:"window,omitempty"`
	Capacity  *float64   `json:"capacity,omitempty"`
	FillRate  *float64   `json:"fillRate,omitempty"`
	Burst     *float64   `json:"burst,omitempty"`
	Instance  string     `json:"instance,omitempty"`
}

// A snapshot is what one proxy saw in one interval.
type snapshot struct {
	at        time.Time
	interval  time.Duration
	instance  string
	observed  float64 // requests per second
	forwarded float64
	rejected  float64 // share
	p95       float64 // seconds
	errors    float64 // share
	limit     policy.Limit
}

// readSnapshot reads the body of a request, or a record. The error is a
// *strictjson.Error, or several joined.
func readSnapshot(body []byte) (snapshot, error) {
	var r request
	if err := strictjson.DecodeIgnoringUnknown(body, &r); err != nil {
		return snapshot{}, err
	}
	return r.snapshot()
}

// record is s as the journal keeps it.
func (s *snapshot) record() []byte {
	seconds := s.interval.Seconds()
	r := request{
		Timestamp: &s.at, Interval: &seconds, Observed: &s.observed, Forwarded: &s.forwarded, Rejected: &s.rejected,
		Latency: &s.p95, Errors: &s.errors, Algorithm: &s.limit.Algorithm, Instance: s.instance,
		Limit: &s.limit.Limit, Window: &s.limit.Window, Capacity: &s.limit.Capacity, FillRate: &s.limit.FillRate, Burst: &s.limit.Burst,
	}
	data, err := json.Marshal(r)
	if err != nil {
		panic("bug: a checked snapshot has no JSON: " + err.Error())
	}
	return data
}

// A check collects what is wrong with a request.
type check struct{ faults []error }

func (c *check) fault(path, format string, args ...any) {
	c.faults = append(c.faults, &strictjson.Error{Path: path, Message: fmt.Sprintf(format, args...)})
}

// err is what is wrong; a single fault is told by itself, as its path is told beside.
func (c *check) err() error {
	if len(c.faults) == 1 {
		return c.faults[0]
	}
	return errors.Join(c.faults...)
}

// number is a field that must be there, from min to max.
func (c *check) number(path string, v *float64, min, max float64) float64 {
	switch {
	case v == nil:
		c.fault(path, "is missing")
		return 0
	case !(*v >= min && *v <= max):
		c.fault(path, "must be from %v to %v, is %v", min, max, *v)
	}
	return *v
}

// optional is a number that may be absent or 0.
func (c *check) optional(path string, v *float64) float64 {
	if v == nil {
		return 0
	}
	return c.number(path, v, 0, numberMax)
}

// snapshot checks r.
func (r *request) snapshot() (snapshot, error) {
	var c check
	s := snapshot{instance: r.Instance}
	switch {
	case r.Timestamp == nil:
		c.fault("timestamp", "is missing")
	case r.Timestamp.Year() < yearMin || r.Timestamp.Year() > yearMax:
		c.fault("timestamp", "must be in the years %d to %d, is %s", yearMin, yearMax, r.Timestamp.Format(time.RFC3339))
	default:
		s.at = r.Timestamp.UTC()
	}
	s.interval = time.Duration(c.number("interval", r.Interval, intervalMin.Seconds(), intervalMax.Seconds()) * float64(time.Second))
	s.observed = c.number("observedRps", r.Observed, 0, rpsMax)
	s.forwarded = c.number("forwardedRps", r.Forwarded, 0, rpsMax)
	if most := forwardedFactor*s.observed + forwardedMore; len(c.faults) == 0 && s.forwarded > most {
		c.fault("forwardedRps", "must be at most %v with an observedRps of %v, is %v", most, s.observed, s.forwarded)
	}
	s.rejected = c.number("rejectedRate", r.Rejected, 0, 1)
	s.p95 = c.number("latencyP95", r.Latency, 0, latencyMax)
	s.errors = c.number("errors5xx", r.Errors, 0, 1)
	s.limit = r.limit(&c)
	if len(r.Instance) > nameBytesMax {
		c.fault("instance", "is longer than %d bytes", nameBytesMax)
	}
	return s, c.err()
}

// limit is the limit in force: what its algorithm needs must be there.
func (r *request) limit(c *check) policy.Limit {
	l := policy.Limit{
		Limit: c.optional("limit", r.Limit), Window: c.optional("window", r.Window),
		Capacity: c.optional("capacity", r.Capacity), FillRate: c.optional("fillRate", r.FillRate), Burst: c.optional("burst", r.Burst),
	}
	if r.Algorithm == nil || *r.Algorithm == "" {
		c.fault("algorithm", "is missing")
		return l
	}
	l.Algorithm = *r.Algorithm
	if len(l.Algorithm) > nameBytesMax {
		c.fault("algorithm", "is longer than %d bytes", nameBytesMax)
	}
	need := func(path string, v float64) {
		if v == 0 {
			c.fault(path, "is missing or 0; algorithm %s needs it", l.Algorithm)
		}
	}
	switch l.Algorithm {
	case policy.Fixed, policy.Sliding, policy.SlidingLog, policy.GCRA:
		need("limit", l.Limit)
		need("window", l.Window)
	case policy.Token, policy.Leaky:
		need("capacity", l.Capacity)
		need("fillRate", l.FillRate)
	}
	return l
}

// known says whether the policy knows the algorithm of l.
func known(l policy.Limit) bool {
	switch l.Algorithm {
	case policy.Fixed, policy.Sliding, policy.Token, policy.SlidingLog, policy.GCRA, policy.Leaky, policy.Off:
		return true
	}
	return false
}
