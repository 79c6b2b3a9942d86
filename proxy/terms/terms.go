package terms

import (
	"slices"
	"time"

	"weir/internal/strict"
)

// A Defer is the part of a rule of that name. What is left out has the value of [Usual].
//
// Immutable after New.
type Defer struct {
	When        When        `json:"when"`
	For         float64     `json:"for"`                // seconds that a request may wait
	PerKey      int         `json:"perKey"`             // the longest line of one key
	Order       Order       `json:"order"`              // in which those of one key are delivered
	Parallel    int         `json:"parallel,omitempty"` // with order none: how many of one key are delivered at a time
	Reserve     float64     `json:"reserve"`            // share of the limit that deliveries leave to live requests
	Attempts    int         `json:"attempts"`           // the first included
	Backoff     Backoff     `json:"backoff"`
	RetryOn     []int       `json:"retryOn"` // statuses that are no final answer
	Idempotency Idempotency `json:"idempotency"`
	Result      Result      `json:"result"`
	Callback    bool        `json:"callback"` // clients may name a URL that is told what became of a request
}

// A Backoff is how long a line waits after an attempt that failed, in seconds: First, then
// Factor times as long each time, up to Max.
type Backoff struct {
	First  float64 `json:"first"`
	Factor float64 `json:"factor"`
	Max    float64 `json:"max"`
}

// A Result is what is kept of the target's answer.
type Result struct {
	Keep  float64 `json:"keep"` // seconds
	Bytes int     `json:"bytes"`
}

// Bounds of what a rule may say.
const (
	forMax      = 30 * 24 * 3600
	perKeyMax   = 1_000_000
	parallelMax = 64
	attemptsMax = 100
	backoffMax  = 24 * 3600
	factorMax   = 10
	bytesMax    = 1 << 20
	// parallelUsual is Parallel with order none.
	parallelUsual = 8
)

// Usual is what holds when a rule says `defer: {}`.
func Usual() Defer {
	return Defer{For: 3600, PerKey: 1000, Reserve: 0.1, Attempts: 8, Backoff: Backoff{First: 1, Factor: 2, Max: 300},
		RetryOn: []int{408, 425, 429, 500, 502, 503, 504}, Result: Result{Keep: 3600, Bytes: 65536}}
}

// ReadNode reads the part from a rule.
func (d *Defer) ReadNode(r *strict.Reader, n *strict.Node, path string) {
	type plain Defer
	*d = Usual()
	if !r.Decode(n, path, (*plain)(d)) {
		return
	}
	seconds(r, path+".for", d.For, forMax)
	r.Range(path+".perKey", int64(d.PerKey), 1, perKeyMax)
	switch {
	case d.Order == ByKey && n.Member("parallel") != nil:
		r.Fault(path+".parallel", "is allowed only with order none; with order key one is delivered at a time")
	case d.Order == None && n.Member("parallel") == nil:
		d.Parallel = parallelUsual
	case d.Order == None:
		r.Range(path+".parallel", int64(d.Parallel), 1, parallelMax)
	}
	if d.Reserve < 0 || d.Reserve > 0.9 {
		r.Fault(path+".reserve", "must be from 0 to 0.9, is %v", d.Reserve)
	}
	r.Range(path+".attempts", int64(d.Attempts), 1, attemptsMax)
	seconds(r, path+".backoff.first", d.Backoff.First, backoffMax)
	seconds(r, path+".backoff.max", d.Backoff.Max, backoffMax)
	if f := d.Backoff.Factor; f < 1 || f > factorMax {
		r.Fault(path+".backoff.factor", "must be from 1 to %d, is %v", factorMax, f)
	}
	if d.Backoff.Max < d.Backoff.First {
		r.Fault(path+".backoff.max", "must not be less than first, which is %v, is %v", d.Backoff.First, d.Backoff.Max)
	}
	for i, status := range d.RetryOn {
		at := strict.Element(path+".retryOn", i)
		if r.Range(at, int64(status), 400, 599); slices.Contains(d.RetryOn[:i], status) {
			r.Fault(at, "given twice")
		}
	}
	seconds(r, path+".result.keep", d.Result.Keep, forMax)
	r.Range(path+".result.bytes", int64(d.Result.Bytes), 0, bytesMax)
}

// seconds judges a span.
func seconds(r *strict.Reader, path string, v, most float64) {
	if v < 0.001 || v > most {
		r.Fault(path, "must be from 0.001 to %v seconds, is %v", most, v)
	}
}

// Wait is how long a request may wait.
func (d *Defer) Wait() time.Duration { return span(d.For) }

// Keep is how long a result is kept.
func (d *Defer) Keep() time.Duration { return span(d.Result.Keep) }

// Kept is Reserve in thousandths.
func (d *Defer) Kept() int64 { return int64(d.Reserve*1000 + 0.5) }

// Callbacks are the terms on which callbacks are sent: five attempts within about an hour and a
// quarter, after 5 s, 50 s, 8 min and 1 h.
func Callbacks() Defer {
	return Defer{For: 24 * 3600, Attempts: 5, Backoff: Backoff{First: 5, Factor: 10, Max: 3600}, Result: Result{Keep: 3600}}
}

func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// A When says which refused requests are kept.
type When uint8

const (
	Prefer When = iota // those with Prefer: respond-async
	Always
)

// String returns the word of the file.
func (w When) String() string { return [...]string{"prefer", "always"}[w] }

// MarshalText returns [When.String].
func (w When) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads that.
func (w *When) UnmarshalText(text []byte) (err error) {
	*w, err = strict.OneOf[When](text, "prefer", "always")
	return err
}

// An Order is the order of deliveries.
type Order uint8

const (
	ByKey Order = iota // those of one key one after the other, as they came
	None
)

// String returns the word of the file.
func (o Order) String() string { return [...]string{"key", "none"}[o] }

// MarshalText returns [Order.String].
func (o Order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads that.
func (o *Order) UnmarshalText(text []byte) (err error) {
	*o, err = strict.OneOf[Order](text, "key", "none")
	return err
}

// An Idempotency says whether requests need an Idempotency-Key to be kept.
type Idempotency uint8

const (
	Optional Idempotency = iota
	Required
)

// String returns the word of the file.
func (i Idempotency) String() string { return [...]string{"optional", "required"}[i] }

// MarshalText returns [Idempotency.String].
func (i Idempotency) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads that.
func (i *Idempotency) UnmarshalText(text []byte) (err error) {
	*i, err = strict.OneOf[Idempotency](text, "optional", "required")
	return err
}
