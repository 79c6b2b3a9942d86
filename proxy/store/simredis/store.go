package simredis

import (
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/program/metric"
	"weir/internal/timing/every"
	"weir/proxy/store"
)

// expireBudget is the number of places that a store checks for expired keys each second.
const expireBudget = 200_000

// A Store is a [store.Store] of one process: a Table and Documents. It is always available, its
// lanes answer immediately, and it grants every lease. It uses monotonic time, because keys
// would stay exhausted for too long after the wall clock is set back.
//
// Safe for concurrent use: table and documents are, epoch is atomic; mu guards the rest.
type Store struct {
	DocumentStore
	table   *Table
	epoch   atomic.Uint64
	began   time.Time
	beganAt int64 // began in microseconds
	stop    chan struct{}
	ended   sync.WaitGroup

	mu    sync.Mutex
	lanes []*lane
}

// NewStore returns an empty store, which removes expired keys until it is closed.
func NewStore(cfg Config) (*Store, error) {
	table, err := New(cfg)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	s := &Store{table: table, began: began, beganAt: began.UnixMicro(), stop: make(chan struct{})}
	s.ended.Go(func() {
		every.Interval(s.stop, time.Second, func(now time.Time) {
			s.table.Expire(time.UnixMicro(s.steady(now)), expireBudget)
		})
	})
	return s, nil
}

// steady converts now to the microseconds of a clock that is never set: it started with the wall
// clock's time and follows the monotonic one.
func (s *Store) steady(now time.Time) int64 { return s.beganAt + now.Sub(s.began).Microseconds() }

// Close ends the removal of keys.
func (s *Store) Close() {
	close(s.stop)
	s.ended.Wait()
}

// Name returns the name in health.
func (s *Store) Name() string { return "simulated" }

// Mode returns Exact.
func (s *Store) Mode() store.Mode { return store.Exact }

// ForgetRefusals changes Epoch; the lanes remember no refusals.
func (s *Store) ForgetRefusals() { s.epoch.Add(1) }

// Epoch returns a number that changes with each ForgetRefusals and each edit.
func (s *Store) Epoch() uint64 { return s.epoch.Load() }

// Forget calls [Table.Forget] and changes Epoch. The error is always nil.
func (s *Store) Forget(rule string, key []byte) (bool, error) {
	known := s.table.Forget(rule, key)
	s.ForgetRefusals()
	return known, nil
}

// Add calls [Table.Add] at the current time and changes Epoch. The error is always nil.
func (s *Store) Add(rule string, key []byte, n int64) (bool, error) {
	changed := s.table.Add(time.UnixMicro(s.steady(time.Now())), rule, key, n)
	s.ForgetRefusals()
	return changed, nil
}

// Watch does nothing: no other process writes.
func (s *Store) Watch(string, func(store.Document)) {}

// Lease reports that owner holds the lease, since there are no others.
func (s *Store) Lease(string, string, time.Duration) (bool, error) { return true, nil }

// Release does nothing.
func (s *Store) Release(string, string) error { return nil }

// RegisterKeys adds the metrics of the keys to set. They matter in every proxy, since the store also
// decides while a shared store is unavailable.
func (s *Store) RegisterKeys(set *metric.Set) {
	set.Gauge("ratelimiter_store_keys", "keys in the simulated Redis", func() float64 { return float64(s.table.Keys()) })
	set.Counter("ratelimiter_store_overflowed_total",
		"decisions about new keys that shared the bucket of their rule, since the simulated Redis had KEYS_MAX keys",
		s.table.Overflowed)
}

// Register adds the metrics of a store that decides for all requests to set.
func (s *Store) Register(set *metric.Set) {
	set.Counter("ratelimiter_store_commands_total", "commands sent to the store", s.decisions)
	set.Counter("ratelimiter_store_decisions_total", "decisions that the store made", s.decisions)
	for _, m := range []string{"normal", "failopen", "local", "closed"} {
		set.Gauge("ratelimiter_mode"+metric.Labels("type", m), "1 for the mode in force", func() float64 {
			return metric.Bool(m == "normal") // this store is always available
		})
	}
}

// decisions returns how many asks about requests were decided.
func (s *Store) decisions() (sum uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		sum += l.decisions.Load()
	}
	return sum
}

// NewLane returns a lane that decides immediately; post is not used.
func (s *Store) NewLane(func(func(now time.Time))) store.Lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &lane{store: s}
	s.lanes = append(s.lanes, l)
	return l
}

// A lane is one loop's access to the table. Its count remains after Close.
//
// Owned by its loop, except decisions, which other goroutines read.
type lane struct {
	store     *Store
	decisions metric.Counter
	_         [112]byte // no other loop shares the cache line
}

// Ask implements [store.Lane]. It always returns true.
func (l *lane) Ask(now time.Time, ask *store.Ask, ans *store.Answer, _ store.Done) bool {
	l.store.table.take(l.store.steady(now), ask, ans)
	if !store.LimitsRefunds(ask.Counters) {
		l.decisions.Inc()
	}
	return true
}

// Refund implements [store.Lane]; see [Table.Refund].
func (l *lane) Refund(now time.Time, c *store.Counter, instant int64, _ store.Mode) {
	l.store.table.Refund(time.UnixMicro(l.store.steady(now)), c, instant)
}

func (l *lane) Close() {}
