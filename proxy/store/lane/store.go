package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/program/journal"
	"weir/internal/program/metric"
	"weir/internal/timing/every"
	"weir/proxy/store"
)

// The prober's pauses between two attempts.
const (
	probePauseMin = 50 * time.Millisecond
	probePauseMax = 500 * time.Millisecond
)

// A Backend is a store.Backend with metrics.
type Backend interface {
	store.Backend
	// Register adds the metrics of the backend: ratelimiter_store_commands_total, and
	// others with its name, such as ratelimiter_<name>_errors_total.
	Register(set *metric.Set)
}

// A Store is a [store.Store] over a backend. It tracks whether the backend is available, and
// has what the lanes share.
//
// Safe for concurrent use: what changes is atomic, or guarded by mu.
type Store struct {
	cfg            Config
	backend        Backend
	counts         counts
	breaker        breaker
	epoch          atomic.Uint64 // of the lanes' refusals
	errUnavailable error
	atStart        error // see Misconfigured

	undecided        every.LogThrottle // log lines about keys
	misconfiguration every.LogThrottle // log lines about the configuration

	mu       sync.Mutex
	lanes    []*Lane
	refusal  string // the last reported error code of a store that does not decide
	watched  []*watched
	poll     chan struct{} // wakes the watcher of documents
	lost     chan struct{} // wakes the prober
	stop     context.CancelFunc
	stopping context.Context
	running  sync.WaitGroup

	batches   context.Context // of the batches in flight; ends when the store does not answer
	endSilent context.CancelFunc
}

// New returns a Store over a backend. If the backend is unavailable, the Store starts in the
// failure mode and keeps trying. cfg must have no Faults.
func New(backend Backend, cfg Config) *Store {
	cfg = cfg.WithDefaults()
	cfg.LostMessage = cmp.Or(cfg.LostMessage, cfg.Title+" connection lost")
	cfg.ReconnectedMessage = cmp.Or(cfg.ReconnectedMessage, cfg.Title+" reconnected, resuming normal operation")
	s := &Store{cfg: cfg, backend: backend, errUnavailable: errors.New(strings.ToLower(cfg.Title) + " is unavailable"),
		poll: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
	s.breaker.misses = cfg.Misses
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.batches, s.endSilent = context.WithCancel(s.stopping)
	if err := backend.Probe(s.stopping); err != nil {
		f, now := backend.Classify(err), time.Now()
		if f.Permanent != nil {
			s.atStart = f.Permanent
		}
		s.failed(now, now, f, err)
	}
	var edits string
	if !s.breaker.isOpen.Load() {
		edits, _ = exchange(s, "read the count of edits", backend.Edits)
	}
	s.running.Go(s.keepProbing)
	s.running.Go(func() { s.keepCounting(edits) })
	s.running.Go(s.keepReading)
	return s
}

// Close ends background work and closes the connections. Close the lanes first.
func (s *Store) Close() {
	s.stop()
	s.running.Wait()
	s.backend.Close()
}

// Name returns Config.Name.
func (s *Store) Name() string { return s.cfg.Name }

// Misconfigured returns the *store.MisconfiguredError that New met: the store stays in the
// failure mode until an operator changes something. It is nil also if the backend has not
// answered.
func (s *Store) Misconfigured() error { return s.atStart }

// Mode returns how asks are currently answered: store.Exact, or the failure mode.
func (s *Store) Mode() store.Mode {
	if s.breaker.isOpen.Load() {
		return s.cfg.Failure
	}
	return store.Exact
}

// ForgetRefusals makes all lanes forget their refusals. It is called after every change of rules or
// limits.
func (s *Store) ForgetRefusals() { s.epoch.Add(1) }

// Epoch returns a number that changes with each ForgetRefusals, and after edits and outages.
func (s *Store) Epoch() uint64 { return s.epoch.Load() }

// without answers an ask by the failure mode. Only mode Local gives decisions.
func (l *Lane) without(now time.Time, ask *store.Ask, ans *store.Answer) {
	mode := l.store.cfg.Failure
	l.store.counts.undecided.Add(requests(ask.Counters, ask.N))
	if mode == store.Local {
		l.local.Ask(now, ask, ans, nil)
		ans.Mode = store.Local
		return
	}
	*ans = store.Answer{Decisions: ans.Decisions[:0], Mode: mode}
	if mode == store.FailOpen {
		ans.Granted = ask.N
	}
}

// judge reports the outcome of a call that was sent at sent to the breaker; fault classifies
// its error.
func (s *Store) judge(now, sent time.Time, fault store.Fault, err error) {
	switch fault.Class {
	case store.TimeoutFault:
		s.late(now, sent)
	case store.OutageFault:
		s.failed(now, sent, fault, err)
	case store.ItemFault:
		s.breaker.answered()
	default:
		if err == nil { // else this side has given up
			s.breaker.answered()
		}
	}
}

// failed opens the breaker because of an error of a call that was sent at sent, and logs that
// once, unless the store is closing.
func (s *Store) failed(now, sent time.Time, fault store.Fault, err error) {
	if s.stopping.Err() == nil && s.breaker.failed(now, sent) {
		s.enter(fault.Code, err)
	}
}

// late counts a call that was sent at sent and has no answer by now, unless the store is
// closing, which ends calls.
func (s *Store) late(now, sent time.Time) {
	if s.stopping.Err() == nil && s.breaker.late(now, sent) {
		what := "a batch"
		if s.breaker.misses > 1 {
			what = fmt.Sprintf("%d batches in a row", s.breaker.misses)
		}
		s.enter("", fmt.Errorf("%s was not answered within %v", what, s.cfg.Timeout))
		s.endBatches(now)
	}
}

// endBatches ends the batches in flight when the store does not answer: their asks follow the
// failure mode like new ones, and their helpers are free when the store is available again.
func (s *Store) endBatches(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endSilent()
	s.batches, s.endSilent = context.WithCancel(s.stopping)
	for _, l := range s.lanes {
		if l.loopClient != nil {
			l.post(func(late time.Time) { l.loopClient.End(late, now) })
		}
	}
}

// forBatch returns the context of a batch that must be decided by until.
func (s *Store) forBatch(until time.Time) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return context.WithDeadline(s.batches, until)
}

// enter is called once when the store has become unavailable.
func (s *Store) enter(refusal string, err error) {
	s.cfg.Log.Warn(s.cfg.LostMessage+", entering "+modeText(s.cfg.Failure)+" mode", "reason", err)
	s.mu.Lock()
	s.refusal = refusal
	s.mu.Unlock()
	s.notifyLanes()
	every.Notify(s.lost)
}

func modeText(m store.Mode) string {
	if m == store.FailOpen {
		return "fail-open"
	}
	return m.String()
}

// undecidable logs, at most once a minute, that a call cannot be decided.
func (s *Store) undecidable(now time.Time, about string, err error) {
	if more, ok := s.undecided.Allow(now, time.Minute); ok {
		s.cfg.Log.Warn(s.cfg.Title+" cannot decide about a key, its requests follow the failure mode", "counters", about,
			"reason", err, "more", more)
	}
}

// reportMisconfigured logs, at most once a minute, that the store is misconfigured.
func (s *Store) reportMisconfigured(now time.Time, fault error) {
	if more, ok := s.misconfiguration.Allow(now, time.Minute); ok {
		s.cfg.Log.Error(s.cfg.Title+" is misconfigured, staying in "+modeText(s.cfg.Failure)+" mode", "reason", fault,
			"more", more)
	}
}

// notifyLanes notifies every lane that the mode has changed.
func (s *Store) notifyLanes() {
	s.ForgetRefusals()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		l.post(l.modeChanged)
	}
}

// keepProbing probes the store while it is unavailable.
func (s *Store) keepProbing() {
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-s.lost:
		}
		for pause := probePauseMin; s.breaker.isOpen.Load(); pause = min(2*pause, probePauseMax) {
			select {
			case <-s.stopping.Done():
				return
			case <-time.After(pause/2 + rand.N(pause/2)): // at random, so that proxies do not probe at the same time
			}
			err := s.backend.Probe(s.stopping)
			if err == nil && s.breaker.back(time.Now()) {
				s.misconfiguration.Reset()
				journal.LogRecovery(s.cfg.Log, s.cfg.ReconnectedMessage)
				s.notifyLanes()
				s.look()
			}
			s.reportRefusal(err)
		}
	}
}

// reportRefusal logs why the store answers but does not decide, unless it has been logged.
func (s *Store) reportRefusal(err error) {
	fault := s.backend.Classify(err)
	if fault.Permanent != nil {
		s.reportMisconfigured(time.Now(), fault.Permanent)
		return
	}
	s.mu.Lock()
	news := fault.Code != "" && fault.Code != s.refusal
	if news {
		s.refusal = fault.Code
	}
	s.mu.Unlock()
	if news {
		s.cfg.Log.Warn(s.cfg.Title+" answers but does not decide", "reason", err)
	}
}

// exchange calls do, which uses the backend, and reports the outcome to the breaker. what is for
// the error.
func exchange[T any](s *Store, what string, do func(ctx context.Context) (T, error)) (v T, err error) {
	err = s.errUnavailable
	if !s.breaker.isOpen.Load() {
		ctx, cancel := context.WithTimeout(s.stopping, s.cfg.Timeout)
		defer cancel()
		sent := time.Now()
		v, err = do(ctx)
		s.judge(time.Now(), sent, s.backend.Classify(err), err)
	}
	if err != nil {
		return v, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}
