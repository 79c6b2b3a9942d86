package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/store/postgres"
)

// Config describes where PostgreSQL is, and the queue's bounds.
type Config struct {
	URL     string // postgres://user:password@host:port/database?sslmode=…
	Setting string // the setting of the URL, for errors: DEFER_URL
	Schema  string
	Manual  bool // an operator runs the script of Schema
	Limits  deferred.Limits
	Key     []byte       // 32 bytes, to encrypt entries; empty: they are not encrypted
	Log     *slog.Logger // nil: none

	callersClock bool          // for tests: callers pass the server's time
	silence      time.Duration // silenceMax except in tests
	closing      time.Duration // how long Close waits for writes in progress; 0: most of CloseTimeout
}

const (
	// silenceMax is how long a statement may take until its connection is closed.
	silenceMax = 3 * time.Second
	// openWithin is how long opening may take, including making tables.
	openWithin = 30 * time.Second
	// retryEvery is how often a server that has failed is tried again.
	retryEvery = 250 * time.Millisecond
	// lookEvery is how often at least a claim asks the server, as other proxies put entries too.
	lookEvery = time.Second
	// slots is how many proxies have their own counters; further ones may wait for each other's commits.
	slots = 32
)

// A Queue is a deferred.Queue in PostgreSQL.
//
// Safe for concurrent use: mu guards the fields below it up to ctx, the others are immutable or safe themselves.
type Queue struct {
	cfg Config
	log *slog.Logger
	vault
	mode   []byte
	writes *postgres.Client // one connection each for puts, settlements, claims
	asks   *postgres.Client // for the requests of operators and clients
	slot   int64            // of puts; the next one is for settlements, the one after that for all else

	puts    *deferred.WriteBuffer[*putting] // also records whether the server can be used
	settles *deferred.WriteBuffer[*settling]
	wakeAt  atomic.Int64 // µs: when a claim has to ask the server

	mu       sync.Mutex
	mends    int             // how often the queue was made usable again
	doubtful []postgres.UUID // puts that were answered Unstored and may be stored; changed by keepStoring
	stats    deferred.Stats
	except   []string // rules that the last claim excluded
	lost     []lostClaim
	evicted  time.Time // when final entries beyond their bound were last looked for

	ctx      context.Context
	stop     context.CancelFunc
	claiming sync.WaitGroup // of claims
	writing  sync.WaitGroup // of keepStoring and keepSettling
	finished chan struct{}  // closed when Close has ended
}

var _ deferred.Queue = (*Queue)(nil)

// Open opens the queue. While PostgreSQL cannot be reached the queue answers Unstored. An error is
// one that only an operator can fix.
func Open(cfg Config) (*Queue, error) {
	q, err := open(cfg)
	if err != nil {
		return nil, fmt.Errorf("open queue of %s: %w", cfg.Setting, err)
	}
	return q, nil
}

func open(cfg Config) (*Queue, error) {
	cfg.silence = cmp.Or(cfg.silence, silenceMax)
	q := &Queue{
		cfg: cfg, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), puts: deferred.NewWriteBuffer[*putting](),
		settles:  deferred.NewWriteBuffer[*settling](),
		finished: make(chan struct{}), stats: deferred.Stats{GivenUp: make(deferred.GivenUpCounts)},
	}
	var err error
	if q.seal, err = deferred.NewSealer(cfg.Key); err != nil {
		return nil, err
	}
	q.mode = []byte("plain")
	if q.seal.Encrypts() {
		digest := q.seal.Digest("mode")
		q.mode = digest[:]
	}
	q.slot = 1 + rand.Int64N(slots)*3
	client := postgres.ClientConfig{URL: cfg.URL, Setting: cfg.Setting, Connections: 3, Schema: cfg.Schema,
		Silence: cfg.silence}
	if q.writes, err = postgres.NewClient(client); err != nil {
		return nil, err
	}
	client.Connections = 1
	if q.asks, err = postgres.NewClient(client); err != nil {
		q.writes.Close()
		return nil, err
	}
	q.ctx, q.stop = context.WithCancel(context.Background())
	err = q.prepare()
	if fault := postgres.Classify(err); fault.Permanent != nil || errors.Is(err, errKey) {
		q.disconnect()
		return nil, err
	}
	if err != nil {
		q.fail(err)
	} else {
		s := q.Stats()
		waiting, dead := s.Totals()
		q.log.Info("Opened queue", "waiting", waiting, "dead", dead, "durability", s.Durability)
	}
	q.writing.Go(q.keepStoring)
	q.writing.Go(q.keepSettling)
	return q, nil
}

func (q *Queue) disconnect() {
	q.stop()
	q.writes.Close()
	q.asks.Close()
}

// errKey is the error of a queue that is encrypted with another key or not at all.
var errKey = errors.New("its entries are not encrypted with the key of DEFER_KEY_FILE: all proxies need the same, " +
	"and it can be changed only when the queue is empty")

// prepare checks the schema and the key, and reads the counts of entries.
func (q *Queue) prepare() error {
	ctx, cancel := context.WithTimeout(q.ctx, openWithin)
	defer cancel()
	m := postgres.Migration{Schema: q.cfg.Schema, Function: "deferred_version", Version: schemaVersion,
		Script: Schema(q.cfg.Schema), Manual: q.cfg.Manual}
	from, err := q.writes.Migrate(ctx, &m)
	if err != nil {
		return err
	}
	if from != schemaVersion {
		q.log.Info("Schema of the queue migrated", "from", from, "to", schemaVersion)
	}
	f, err := q.call(ctx, q.writes, "deferred_open_1", new(postgres.Args).Bytes(q.mode))
	if err != nil {
		return err
	}
	known, durability := f.Bytes(), string(f.Bytes())
	if string(known) != string(q.mode) {
		return errKey
	}
	q.mu.Lock()
	q.stats.Durability = durability
	q.mu.Unlock()
	return q.learn(f)
}

// call calls a function whose first column is not a time.
func (q *Queue) call(ctx context.Context, c *postgres.Client, function string,
	args *postgres.Args) (*postgres.Fields, error) {
	row, err := c.Call(ctx, function, args)
	if err != nil {
		return nil, err
	}
	return postgres.NewFields(row), nil
}

// write calls a function whose first column is the server's time.
func (q *Queue) write(ctx context.Context, function string, args *postgres.Args) (f *postgres.Fields, instant int64,
	err error) {
	sent := time.Now()
	if f, err = q.call(ctx, q.writes, function, args); err != nil {
		return nil, 0, err
	}
	if instant = f.Int8(); !q.cfg.callersClock {
		q.clock.seen(sent, time.Now(), instant)
	}
	return f, instant, f.Err
}

// at returns the first argument of functions: a time, or 0 for the server's.
func (q *Queue) at(now time.Time) int64 {
	if q.cfg.callersClock {
		return now.UnixMicro()
	}
	return 0
}

// failed handles the error of a statement. If the queue is closed it returns ErrClosed. An error
// that concerns all statements makes the queue unusable until the server answers again, unless
// the statement has certainly failed and the queue was made usable after it began.
func (q *Queue) failed(err error, mends int) error {
	if err == nil {
		return nil
	}
	switch {
	case q.puts.Closed():
		return deferred.ErrClosed
	case spreads(err) && !(q.mendedTimes() != mends && postgres.HadNoEffect(err)):
		q.fail(err)
	}
	return err
}

// mendedTimes returns how often the queue was made usable again, for failed.
func (q *Queue) mendedTimes() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mends
}

// fail makes the queue unusable until mend succeeds.
func (q *Queue) fail(err error) {
	if q.puts.Fail(err) == nil {
		q.log.Error("Queue cannot be written, refusing instead", "reason", err)
	}
}

// mend makes the queue usable if the server is.
func (q *Queue) mend() {
	if q.prepare() != nil || q.withdraw() != nil {
		return
	}
	q.mu.Lock()
	q.mends++
	q.mu.Unlock()
	q.puts.Recover()
	q.log.Info("Queue writes again")
	q.wakeAt.Store(math.MinInt64)
	q.settles.Notify()
}

// Stats implements deferred.Queue.
func (q *Queue) Stats() deferred.Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.GivenUp = maps.Clone(s.GivenUp)
	s.Err = q.puts.Err()
	return s
}

// Close implements deferred.Queue. It must not be called by Done.
func (q *Queue) Close() error {
	q.mu.Lock() // so that no further claim begins
	first := q.puts.Close()
	q.mu.Unlock()
	if !first {
		<-q.finished
		return nil
	}
	over := time.AfterFunc(cmp.Or(q.cfg.closing, deferred.CloseTimeout*3/4), q.stop)
	defer over.Stop()
	q.claiming.Wait() // claims whose caller has left are given back
	q.settles.Close()
	q.writing.Wait()
	q.disconnect()
	close(q.finished)
	return nil
}
