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

	// batchMax bounds the groups, and the releases, of one batch: a long one would delay the
	// other clients of the store.
	batchMax = 256
	// releasesMax is the number of waiting batches from which nothing is given back any more.
	releasesMax = 64
)

// Config has the names of a store, its bounds, and the failure mode. Zero fields mean the
// defaults.
type Config struct {
	Name  string // in metrics and health: redis
	Title string // in the log: Redis
	Lost  string // log line when it becomes unavailable; "Redis connection lost"
	Back  string // log line when it is available again; "Redis reconnected, resuming normal operation"

	// Timeout is the longest time that an ask waits; 100 ms, at most 2 s.
	Timeout time.Duration
	// Failure is the mode in which asks are answered without the store: store.FailOpen,
	// store.Local or store.Closed; zero means FailOpen.
	Failure store.Mode
	// Local decides in mode store.Local; its lanes answer immediately.
	Local store.Store

	// Misses is the number of successive batches without an answer in time from which the
	// store counts as unavailable; 5. A brief load peak of this machine is not an outage.
	Misses int
	// InFlight bounds the batches of one lane in flight; 2. Fewer make larger batches, more
	// make shorter waits. A further batch is sent only when it has as many asks as the one
	// before it.
	InFlight int
	// Locking says that the backend locks keys while it decides. Then a batch waits for one
	// of its lane in flight that has a group in common with it, and gathers more asks
	// meanwhile: otherwise it would wait in the backend.
	Locking bool
	// RefusalsMax bounds the refusals that each lane remembers; 16384. Negative: none.
	RefusalsMax int
	// WaitingMax bounds the waiting asks of each lane; 65536. Further ones follow the
	// failure mode.
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
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return cfg
}

// A Fault is one fault of a configuration.
type Fault struct {
	Field   string // of Config
	Problem string // "is empty"
	Allowed string // allowed values; may be empty
}

// Faults are all faults of a configuration.
type Faults []Fault

// Error returns a line for each fault.
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

// Check adds a fault if wrong is true.
func (f *Faults) Check(wrong bool, field, allowed, format string, args ...any) {
	if wrong {
		*f = append(*f, Fault{field, fmt.Sprintf(format, args...), allowed})
	}
}

// Err returns the faults as an error, or nil if there are none.
func (f Faults) Err() error {
	if f == nil {
		return nil
	}
	return f
}

// Faults returns what is wrong with cfg.
func (cfg Config) Faults() (f Faults) {
	cfg = cfg.WithDefaults()
	f.Check(cfg.Timeout < time.Millisecond || cfg.Timeout > timeoutMax, "Timeout", "", "must be 1ms to %v, is %v", timeoutMax, cfg.Timeout)
	f.Check(cfg.Failure < store.FailOpen || cfg.Failure > store.Closed, "Failure", "", "must be FailOpen, Local or Closed, is %v", cfg.Failure)
	f.Check(cfg.Failure == store.Local && cfg.Local == nil, "Local", "", "mode local needs a store")
	f.Check(cfg.InFlight < 1 || cfg.InFlight > inFlightMax, "InFlight", "", "must be 1 to %d, is %d", inFlightMax, cfg.InFlight)
	f.Check(cfg.WaitingMax < 1, "WaitingMax", "", "must be at least 1, is %d", cfg.WaitingMax)
	return f
}
