package lane

import (
	"cmp"
	"log/slog"
	"time"

	"weir/internal/data/strict"
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

	// batchMax bounds the groups, and the refunds, of one batch: a long one would delay the
	// other clients of the store.
	batchMax = 256
	// releasesMax is the number of waiting batches from which nothing more is given back.
	releasesMax = 64
)

// Config has the names of a store, its bounds, and the failure mode. Zero fields mean the
// defaults.
type Config struct {
	Name               string // in metrics and health: redis
	Title              string // in the log: Redis
	LostMessage        string // log line when it becomes unavailable; "Redis connection lost"
	ReconnectedMessage string // log line when it is available again; "Redis reconnected, resuming normal operation"

	// Timeout is the longest time that an ask waits; 100 ms, at most 2 s.
	Timeout time.Duration
	// Failure is the mode in which asks are answered without the store: store.FailOpen,
	// store.Local or store.Closed; zero means FailOpen.
	Failure store.Mode
	// ShowKey appends a counter's key in the form that logs show; nil: logs show only the rule.
	ShowKey func(dst, key []byte) []byte
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

// Check adds the faults of cfg to r, with the names of the fields as paths.
func (cfg Config) Check(r *strict.Reader) {
	cfg = cfg.WithDefaults()
	r.Check(cfg.Timeout < time.Millisecond || cfg.Timeout > timeoutMax, "Timeout", "must be 1ms to %v, is %v",
		timeoutMax, cfg.Timeout)
	r.Check(cfg.Failure < store.FailOpen || cfg.Failure > store.Closed, "Failure",
		"must be FailOpen, Local or Closed, is %v", cfg.Failure)
	r.Check(cfg.Failure == store.Local && cfg.Local == nil, "Local", "mode local needs a store")
	r.Check(cfg.InFlight < 1 || cfg.InFlight > inFlightMax, "InFlight", "must be 1 to %d, is %d", inFlightMax,
		cfg.InFlight)
	r.Check(cfg.WaitingMax < 1, "WaitingMax", "must be at least 1, is %d", cfg.WaitingMax)
}
