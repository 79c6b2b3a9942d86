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

	"weir/internal/metric"
	"weir/proxy/store"
)

// The prober's pauses between two attempts.
const (
	probePauseMin = 50 * time.Millisecond
	probePauseMax = 500 * time.Millisecond
)

// A Backend is a store's, and has metrics.
type Backend interface {
	store.Backend
	// Register adds what the backend counts: ratelimiter_store_commands_total, and under
	// its own name ratelimiter_<name>_errors_total and the like.
	Register(set *metric.Set)
}

// A Store is one program's access to a backend: it notices when that goes and comes, and
// keeps what the lanes share. It is a [store.Store].
//
// Safe for concurrent use: what changes is atomic, or guarded by mu.
type Store struct {
	cfg     Config
	backend Backend
	counts  counts
	breaker breaker
	epoch   atomic.Uint64 // of what lanes remember of refusals
	errAway error         // of what needs the store while it is away
	atStart error         // see Misconfigured

	grumble   grumble // about keys
	complaint grumble // about the configuration

	mu       sync.Mutex
	lanes    []*Lane
	refusal  string // the last that was said of why the store does not decide
	watched  []*watched
	poll     chan struct{} // asks the watcher to look at documents at once
	lost     chan struct{} // wakes the prober
	stop     context.CancelFunc
	stopping context.Context
	running  sync.WaitGroup

	batches   context.Context // of those sent; ends when the store is silent
	endSilent context.CancelFunc
}

// New returns the store of a backend, also when that is away: then it starts in the
// failure mode and goes on trying. The error is about the configuration, see
// Config.Validate.
func New(backend Backend, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("use %s: %w", cfg.Name, err)
	}
	cfg = cfg.WithDefaults()
	cfg.Lost = cmp.Or(cfg.Lost, cfg.Title+" connection lost")
	cfg.Back = cmp.Or(cfg.Back, cfg.Title+" reconnected, resuming normal operation")
	s := &Store{cfg: cfg, backend: backend, errAway: errors.New(strings.ToLower(cfg.Title) + " is unavailable"),
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
	s.running.Go(s.keepProbing)
	s.running.Go(s.keepCounting)
	s.running.Go(s.keepReading)
	return s, nil
}

// Close ends the connections and everything that runs in the background. Close the
// lanes first.
func (s *Store) Close() {
	s.stop()
	s.running.Wait()
	s.backend.Close()
}

// Name returns Config.Name.
func (s *Store) Name() string { return s.cfg.Name }

// Misconfigured returns the *store.MisconfiguredError that New met: unless somebody
// changes something, the store will stay in the failure mode. Nil says nothing: it may
// not have answered.
func (s *Store) Misconfigured() error { return s.atStart }

// Mode is how asks are answered now: store.Exact, or the failure mode.
func (s *Store) Mode() store.Mode {
	if s.breaker.away.Load() {
		return s.cfg.Failure
	}
	return store.Exact
}

// connected reports whether the backend decides.
func (s *Store) connected() bool { return !s.breaker.away.Load() }

// Forgetful makes all lanes forget the refusals that they remember. It is called
// after every change of rules or limits.
func (s *Store) Forgetful() { s.epoch.Add(1) }

// Epoch is another number after each Forgetful, and after edits and outages.
func (s *Store) Epoch() uint64 { return s.epoch.Load() }

// without answers an ask by the failure mode. Decisions are known in mode Local only.
func (l *Lane) without(now time.Time, ask *store.Ask, ans *store.Answer) {
	mode := l.store.cfg.Failure
	l.store.counts.undecided.Add(uint64(ask.N))
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

// judge tells the breaker how an exchange went that was sent at sent: fault is what its
// error means.
func (s *Store) judge(now, sent time.Time, fault store.Fault, err error) {
	switch fault.Class {
	case store.LateFault:
		s.late(now, sent)
	case store.OutageFault:
		s.failed(now, sent, fault, err)
	default:
		s.breaker.answered()
	}
}

// failed opens the breaker for an error of what was sent at sent, and says so
// once; not while the store closes.
func (s *Store) failed(now, sent time.Time, fault store.Fault, err error) {
	if s.stopping.Err() == nil && s.breaker.failed(now, sent) {
		s.enter(fault.Code, err)
	}
}

// late counts what was sent at sent and has no answer by now; not while the store
// closes, which ends what is under way.
func (s *Store) late(now, sent time.Time) {
	if s.stopping.Err() == nil && s.breaker.late(now, sent) {
		what := "a batch"
		if s.breaker.misses > 1 {
			what = fmt.Sprintf("%d batches in a row", s.breaker.misses)
		}
		s.enter("", fmt.Errorf("%s had no answer within %v", what, s.cfg.Timeout))
		s.endBatches(now)
	}
}

// endBatches ends the batches under way, as the store is silent: their asks follow the failure
// mode like those that come now, and their helpers are free when the store is back.
func (s *Store) endBatches(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endSilent()
	s.batches, s.endSilent = context.WithCancel(s.stopping)
	for _, l := range s.lanes {
		if l.courier != nil {
			l.post(func(late time.Time) { l.courier.End(late, now) })
		}
	}
}

// forBatch is the time that a batch may take.
func (s *Store) forBatch() (context.Context, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return context.WithTimeout(s.batches, s.cfg.Timeout)
}

// enter is called once when the store has gone.
func (s *Store) enter(refusal string, err error) {
	s.cfg.Log.Warn(s.cfg.Lost+", entering "+modeText(s.cfg.Failure)+" mode", "reason", err)
	s.mu.Lock()
	s.refusal = refusal
	s.mu.Unlock()
	s.tellLanes()
	select {
	case s.lost <- struct{}{}:
	default:
	}
}

func modeText(m store.Mode) string {
	if m == store.FailOpen {
		return "fail-open"
	}
	return m.String()
}

// leave is called once when the store is back.
func (s *Store) leave() {
	s.complaint.forget()
	s.cfg.Log.Info(s.cfg.Back)
	s.tellLanes()
	s.look()
}

// tellLanes has every lane notice that the mode has changed.
func (s *Store) tellLanes() {
	s.Forgetful()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		l.post(l.modeChanged)
	}
}

// keepProbing looks for the store whenever it is away.
func (s *Store) keepProbing() {
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-s.lost:
		}
		for pause := probePauseMin; s.breaker.away.Load(); pause = min(2*pause, probePauseMax) {
			// between half of it and all, so that many proxies do not come at once
			if !s.sleep(pause/2 + rand.N(pause/2)) {
				return
			}
			err := s.backend.Probe(s.stopping)
			if err == nil && s.breaker.back(time.Now()) {
				s.leave()
			}
			s.tellRefusal(err)
		}
	}
}

// tellRefusal says why the store does not decide when it answers again, unless that has
// been said.
func (s *Store) tellRefusal(err error) {
	fault := s.backend.Classify(err)
	if fault.Permanent != nil {
		s.complain(time.Now(), fault.Permanent)
		return
	}
	s.mu.Lock()
	news := fault.Code != "" && fault.Code != s.refusal
	if news {
		s.refusal = fault.Code
	}
	s.mu.Unlock()
	if news {
		s.cfg.Log.Warn(s.cfg.Title+" answers, and does not decide", "reason", err)
	}
}

// sleep waits, and reports false when the store is closing.
func (s *Store) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.stopping.Done():
		return false
	case <-t.C:
		return true
	}
}

// within is the time that one exchange with the backend may take.
func (s *Store) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.stopping, s.cfg.Timeout)
}

// exchange has do use the backend, in time, and tells the breaker how it went.
func (s *Store) exchange(do func(ctx context.Context) error) error {
	if s.breaker.away.Load() {
		return s.errAway
	}
	ctx, cancel := s.within()
	defer cancel()
	sent := time.Now()
	err := do(ctx)
	s.judge(time.Now(), sent, s.backend.Classify(err), err)
	return err
}
