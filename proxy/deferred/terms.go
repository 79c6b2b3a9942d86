package deferred

import (
	"fmt"
	"slices"
	"time"

	"weir/internal/data/strict"
)

// A Defer is the member defer of a rule: which refused requests are stored for later delivery, how
// long they may wait, and the outcome of each attempt to deliver one. Omitted members have the values of [Default].
//
// Immutable after New.
type Defer struct {
	When        StoreCondition  `json:"when"`
	For         float64         `json:"for"`                // seconds that a request may wait
	PerKey      int             `json:"perKey"`             // bound on the waiting requests of one key
	Order       DeliveryOrder   `json:"order"`              // order of delivery within one key
	Parallel    int             `json:"parallel,omitempty"` // with order none: bound on simultaneous deliveries of one key
	Reserve     float64         `json:"reserve"`            // share of the limit that deliveries leave to live requests
	Attempts    int             `json:"attempts"`           // including the first
	Backoff     Backoff         `json:"backoff"`
	RetryOn     []int           `json:"retryOn"` // statuses after which it is tried again, with an Idempotency-Key
	Idempotency Idempotency     `json:"idempotency"`
	Result      ResultRetention `json:"result"`
	Callback    bool            `json:"callback"` // clients may name a URL to which the outcome is reported
}

// A Backoff is the wait of a line after a failed attempt, in seconds: First, then Factor times
// as long each time, up to Max.
type Backoff struct {
	First  float64 `json:"first"`
	Factor float64 `json:"factor"`
	Max    float64 `json:"max"`
}

// A ResultRetention says what is kept of the target's answer.
type ResultRetention struct {
	Keep  float64 `json:"keep"` // seconds
	Bytes int     `json:"bytes"`
}

// Bounds of the values in a rule.
const (
	forMax           = 30 * 24 * 3600
	perKeyMax        = 1_000_000
	termsParallelMax = 64
	attemptsMax      = 100
	backoffMax       = 24 * 3600
	factorMax        = 10
	bytesMax         = 1 << 20
	// parallelUsual is the default of Parallel with order none.
	parallelUsual = 8
)

// Default returns the meaning of `defer: {}`.
func Default() Defer {
	return Defer{When: Prefer, Order: ByKey, Idempotency: Optional, For: 3600, PerKey: 1000, Reserve: 0.1, Attempts: 8,
		Backoff: Backoff{First: 1, Factor: 2, Max: 300},
		RetryOn: []int{408, 425, 429, 500, 502, 503, 504}, Result: ResultRetention{Keep: 3600, Bytes: 65536}}
}

// ReadNode decodes the member of a rule.
func (d *Defer) ReadNode(r *strict.Reader, n *strict.Node, path string) {
	type plain Defer
	*d = Default()
	if !r.Decode(n, path, (*plain)(d)) {
		return
	}
	seconds(r, path+".for", d.For, forMax)
	r.Range(path+".perKey", int64(d.PerKey), 1, perKeyMax)
	switch {
	case d.Order == ByKey && n.Member("parallel") != nil:
		r.Fault(path+".parallel", "is allowed only with order none; with order key one is delivered at a time")
	case d.Order == Unordered && n.Member("parallel") == nil:
		d.Parallel = parallelUsual
	case d.Order == Unordered:
		r.Range(path+".parallel", int64(d.Parallel), 1, termsParallelMax)
	}
	r.Check(d.Reserve < 0 || d.Reserve > 0.9, path+".reserve", "must be from 0 to 0.9, is %v", d.Reserve)
	r.Range(path+".attempts", int64(d.Attempts), 1, attemptsMax)
	seconds(r, path+".backoff.first", d.Backoff.First, backoffMax)
	seconds(r, path+".backoff.max", d.Backoff.Max, backoffMax)
	if f := d.Backoff.Factor; f < 1 || f > factorMax {
		r.Fault(path+".backoff.factor", "must be from 1 to %d, is %v", factorMax, f)
	}
	r.Check(d.Backoff.Max < d.Backoff.First, path+".backoff.max", "must not be less than first, which is %v, is %v",
		d.Backoff.First, d.Backoff.Max)
	for i, status := range d.RetryOn {
		at := strict.ElementPath(path+".retryOn", i)
		if r.Range(at, int64(status), 400, 599); slices.Contains(d.RetryOn[:i], status) {
			r.Fault(at, "given twice")
		}
	}
	seconds(r, path+".result.keep", d.Result.Keep, forMax)
	r.Range(path+".result.bytes", int64(d.Result.Bytes), 0, bytesMax)
}

// seconds checks a duration.
func seconds(r *strict.Reader, path string, v, most float64) {
	r.Check(v < 0.001 || v > most, path, "must be from 0.001 to %v seconds, is %v", most, v)
}

// WaitMax returns how long a request may wait.
func (d *Defer) WaitMax() time.Duration { return span(d.For) }

// Retention returns how long a result is kept.
func (d *Defer) Retention() time.Duration { return span(d.Result.Keep) }

// ReserveThousandths returns Reserve in thousandths.
func (d *Defer) ReserveThousandths() int64 { return int64(d.Reserve*1000 + 0.5) }

// ForCallbacks returns the terms for callbacks: five attempts within about an hour and a quarter,
// with pauses of 5 s, 50 s, 8 min and 1 h.
func ForCallbacks() Defer {
	return Defer{For: 24 * 3600, Attempts: 5, Backoff: Backoff{First: 5, Factor: 10, Max: 3600},
		Result: ResultRetention{Keep: 3600}}
}

func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// A StoreCondition says which refused requests are stored.
type StoreCondition string

const (
	Prefer StoreCondition = "prefer" // those with Prefer: respond-async
	Always StoreCondition = "always"
)

// UnmarshalText parses one of these words.
func (w *StoreCondition) UnmarshalText(text []byte) error { return oneOf(w, text, Prefer, Always) }

// A DeliveryOrder is the order of deliveries.
type DeliveryOrder string

const (
	ByKey     DeliveryOrder = "key" // the requests of one key one after another, in the order of arrival
	Unordered DeliveryOrder = "none"
)

// UnmarshalText parses one of these words.
func (o *DeliveryOrder) UnmarshalText(text []byte) error { return oneOf(o, text, ByKey, Unordered) }

// An Idempotency says whether requests need an Idempotency-Key to be stored.
type Idempotency string

const (
	Optional Idempotency = "optional"
	Required Idempotency = "required"
)

// UnmarshalText parses one of these words.
func (i *Idempotency) UnmarshalText(text []byte) error { return oneOf(i, text, Optional, Required) }

// oneOf sets v to one of two words.
func oneOf[T ~string](v *T, text []byte, a, b T) error {
	if *v = T(text); *v != a && *v != b {
		return fmt.Errorf("must be one of %s, %s, is %q", a, b, text)
	}
	return nil
}
