package model

import (
	"strings"
	"time"

	"weir/internal/data/strict"
)

// Bounds of a Config. They keep every sum of times far from overflow and the
// memory of a full queue below 100 MB.
const (
	DelayMax        = time.Hour        // longest mean service time
	WorkersMax      = 1_000_000        // most workers
	QueueMax        = 1_000_000        // most waiting places
	QueueTimeoutMin = time.Millisecond // shortest timeout; Queue 0 means that no request waits
	QueueTimeoutMax = time.Hour        // longest timeout
)

// A Dist is the distribution of the service times around their mean.
type Dist uint8

// The distributions.
const (
	Constant Dist = iota // every request takes exactly the mean
	// Exponential: memoryless; the deviation equals the mean. With Poisson
	// arrivals the queue is then M/M/c.
	Exponential
	// Lognormal: most requests are quick and a few take very long, as with real
	// services. The shape σ is 1, so that half take less than 0.61 of the mean
	// and one in a hundred takes more than 6.2 times the mean.
	Lognormal
)

var distNames = [...]string{Constant: "constant", Exponential: "exponential", Lognormal: "lognormal"}

// String returns the word used in settings and JSON.
func (d Dist) String() string { return distNames[d] }

// MarshalText implements encoding.TextMarshaler.
func (d Dist) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses the word of a distribution.
func (d *Dist) UnmarshalText(text []byte) (err error) {
	*d, err = strict.OneOf[Dist](text, distNames[:]...)
	return err
}

// A Config is the behaviour of the service. The zero value is invalid because of QueueTimeout;
// Default returns a valid Config.
type Config struct {
	Delay        time.Duration // mean service time; 0: requests are answered at once
	Dist         Dist          // of the service times
	Workers      int           // requests served at the same time; 0: any number
	Queue        int           // requests that may wait for a worker; more are refused
	QueueTimeout time.Duration // how long a request waits for a worker before it times out
	// ErrorRate is the share, 0 to 1, of the served requests that fail. A
	// failing request occupies its worker as long as any other.
	ErrorRate float64
}

// Default returns a service with unlimited capacity, which answers at once and never fails.
func Default() Config {
	return Config{Queue: 1000, QueueTimeout: 5 * time.Second}
}

// Plain reports whether every request is served at once without failing, so that the Model is not
// needed.
func (c Config) Plain() bool {
	return c.Delay == 0 && c.Workers == 0 && c.ErrorRate == 0
}

// Validate returns all faults of c as strict.Faults, with the JSON names of the fields, or nil.
func (c Config) Validate() error {
	var faults strict.Reader
	faults.Check(c.Delay < 0 || c.Delay > DelayMax, "delay", "must be 0 to %g seconds", DelayMax.Seconds())
	faults.Check(int(c.Dist) >= len(distNames), "delayDist", "must be one of %s", strings.Join(distNames[:], ", "))
	faults.Check(c.Workers < 0 || c.Workers > WorkersMax, "workers", "must be 0 to %d", WorkersMax)
	faults.Check(c.Queue < 0 || c.Queue > QueueMax, "queue", "must be 0 to %d", QueueMax)
	faults.Check(c.QueueTimeout < QueueTimeoutMin || c.QueueTimeout > QueueTimeoutMax, "queueTimeout",
		"must be %g to %g seconds", QueueTimeoutMin.Seconds(), QueueTimeoutMax.Seconds())
	faults.Check(!(c.ErrorRate >= 0 && c.ErrorRate <= 1), "errorRate", "must be 0 to 1") // true for NaN
	return faults.Err()
}
