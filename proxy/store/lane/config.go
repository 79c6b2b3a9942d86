package lane

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"weir/proxy/store"
)

// Bounds and defaults.
const (
	timeoutDefault  = 100 * time.Millisecond
	timeoutMax      = 2 * time.Second
	inFlightDefault = 2
	inFlightMax     = 64
	refusalsDefault = 16384
	waitingDefault  = 65536
	missesDefault   = 5

	// batchMax bounds the groups, and the releases, of one batch: a long one keeps the other
	// clients of the store waiting.
	batchMax = 256
	// releasesMax is how many batches may wait until places in queues are no longer given
	// back.
	releasesMax = 64
)

// Config says what a store is called and what to do when it is away. Zero fields mean the
// defaults.
type Config struct {
	Name  string // in metrics and health: redis
	Title string // in the log: Redis
	Lost  string // in the log when it is away; "Redis connection lost"
	Back  string // and when it is back; "Redis reconnected, resuming normal operation"

	// Timeout is the longest that an ask waits; 100 ms, at most 2 s.
	Timeout time.Duration
	// Failure is the mode in which asks are answered without the store: store.FailOpen,
	// store.Local or store.Closed; zero means FailOpen.
	Failure store.Mode
	// Local decides in mode store.Local; its lanes answer at once.
	Local store.Store

	// Misses is how many batches in a row must miss their deadlines until the store counts as
	// away; 5. A processor that is busy for a moment must not be taken for an outage.
	Misses int
	// InFlight is how many batches of one lane may be under way; 2. Fewer make
	// larger batches, more make shorter waits.
	InFlight int
	// Locking says that the backend locks keys while it decides. Then a batch waits for one of
	// its lane that is under way and has a group in common with it, and gathers more asks
	// meanwhile: sent at once it would wait in the backend.
	Locking bool
	// RefusalsMax is how many refusals each lane remembers; 16384. Negative: none.
	RefusalsMax int
	// WaitingMax is how many asks of each lane may wait; 65536. Further ones follow
	// the failure mode.
	WaitingMax int

	// Log is the log of the store's component; nil: none.
	Log *slog.Logger
}

// WithDefaults returns cfg with zero fields filled in.
func (cfg Config) WithDefaults() Config {
	cfg.Timeout = cmp.Or(cfg.Timeout, timeoutDefault)
	cfg.Failure = cmp.Or(cfg.Failure, store.FailOpen)
	cfg.Misses = cmp.Or(cfg.Misses, missesDefault)
	cfg.InFlight = cmp.Or(cfg.InFlight, inFlightDefault)
	cfg.RefusalsMax = cmp.Or(cfg.RefusalsMax, refusalsDefault)
	cfg.WaitingMax = cmp.Or(cfg.WaitingMax, waitingDefault)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// A Fault is one thing that is wrong with a configuration.
type Fault struct {
	Field   string // of Config
	Problem string // "is empty"
	Allowed string // what would do; may be empty
}

// Faults is all that is wrong with a configuration.
type Faults []Fault

// Error has a line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Field + ": " + fault.Problem
		if fault.Allowed != "" {
			lines[i] += "; allowed: " + fault.Allowed
		}
	}
	return strings.Join(lines, "\n")
}

// Check notes a fault if something is wrong.
func (f *Faults) Check(wrong bool, field, allowed, format string, args ...any) {
	if wrong {
		*f = append(*f, Fault{field, fmt.Sprintf(format, args...), allowed})
	}
}

// Err returns the faults as an error, or nil when there are none.
func (f Faults) Err() error {
	if f == nil {
		return nil
	}
	return f
}

// Validate returns Faults, or nil.
func (cfg Config) Validate() error {
	cfg = cfg.WithDefaults()
	var f Faults
	f.Check(cfg.Timeout < time.Millisecond || cfg.Timeout > timeoutMax, "Timeout", "", "must be 1ms to %v, is %v", timeoutMax, cfg.Timeout)
	f.Check(cfg.Failure < store.FailOpen || cfg.Failure > store.Closed, "Failure", "", "must be FailOpen, Local or Closed, is %v", cfg.Failure)
	f.Check(cfg.Failure == store.Local && cfg.Local == nil, "Local", "", "mode local needs a store")
	f.Check(cfg.InFlight < 1 || cfg.InFlight > inFlightMax, "InFlight", "", "must be 1 to %d, is %d", inFlightMax, cfg.InFlight)
	f.Check(cfg.WaitingMax < 1, "WaitingMax", "", "must be at least 1, is %d", cfg.WaitingMax)
	return f.Err()
}
