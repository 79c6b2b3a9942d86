package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/timing/every"
	"weir/proxy/store"
	"weir/proxy/store/lane"
)

const (
	// migrationTimeout bounds creating the tables, or waiting for another proxy that creates them.
	migrationTimeout = 30 * time.Second
	// identifyPause is how long a function is called by statements before its OID is looked up
	// again.
	identifyPause = 10 * time.Second
	editsName     = namespace + "edits"
	epochName     = namespace + "epoch" // in table keys; see epoch_9
	probeName     = namespace + "probe"
)

// New returns a store in PostgreSQL. If PostgreSQL is unavailable the store starts in the failure
// mode and keeps trying. The error is about the configuration; see Config.Validate.
func New(cfg Config) (*lane.Store, error) {
	b, err := newBackend(cfg)
	if err != nil {
		return nil, err
	}
	return lane.New(b, b.cfg.Config), nil
}

// A backend is the backend of a store in PostgreSQL.
//
// Safe for concurrent use: the pools are; other fields that change are atomic.
type backend struct {
	cfg       Config
	schema    string // quoted
	pool      *pool
	documents *pool
	oids      [functionCount]atomic.Uint32 // of the functions that decide; 0: they are called by statements
	ready     atomic.Bool                  // the schema has the version that this program needs
	// part of the schema is missing; only used by Probe, which is not called concurrently
	lacking bool
	counts  *counts
	monitor monitor
	chores  sync.WaitGroup
	stop    context.CancelFunc
}

// newBackend returns a backend that connects when it is used. The error is about the
// configuration.
func newBackend(cfg Config) (*backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("use PostgreSQL: %w", err)
	}
	cfg = cfg.withDefaults()
	parsed, err := cfg.parse() // reads files again, which may have changed
	if err != nil {
		return nil, fmt.Errorf("use PostgreSQL: %w", err)
	}
	b := &backend{cfg: cfg, schema: quoted(cfg.Schema) + ".", pool: newPool(parsed, cfg.Connections, cfg.silence),
		documents: newPool(parsed, 1, cfg.silence),
		counts:    newCounts(), monitor: monitor{lock: make(chan struct{}, 1)}}
	var stopping context.Context
	stopping, b.stop = context.WithCancel(context.Background())
	if cfg.clock == nil {
		b.chores.Go(func() { b.keepSweeping(stopping, rand.Text()) })
		b.chores.Go(func() { b.keepLooking(stopping) })
		b.chores.Go(func() { b.keepIdentifying(stopping) })
	}
	return b, nil
}

// Close closes all connections, and cancels what is in progress.
func (b *backend) Close() {
	b.stop()
	b.pool.close()
	b.documents.close()
	b.chores.Wait()
}

// Decide carries out the refunds and decides the groups; see [store.Backend].
func (b *backend) Decide(ctx context.Context, batch *store.Batch) {
	clock, patience := b.timing()
	for _, call := range takes(b.cfg.KeyPrefix, batch) {
		if _, err := b.take(ctx, call, clock, patience); err != nil {
			b.counts.failed(err)
			if codeOf(err) == codeLocked {
				every.Notify(b.monitor.lock)
			}
			err = withAdvice(err)
			call.fail(err)
		}
	}
}

// timing returns the first arguments of functions that lock keys: the clock, 0 for the server's,
// and for how many ms they wait for a lock.
func (b *backend) timing() (clock int64, patience int32) {
	if b.cfg.clock != nil {
		clock = b.cfg.clock()
	}
	return clock, max(1, int32(b.cfg.Timeout.Milliseconds()/2))
}

// take calls the function that decides a call, and passes the result to its groups.
func (b *backend) take(ctx context.Context, call *take, clock int64, patience int32) (r taken, err error) {
	f, args := call.call(clock, patience)
	began := time.Now()
	result, err := b.pool.run(b.job(ctx, f, &b.oids[f], args))
	b.counts.commands.Inc()
	b.counts.exchanges.Observe(time.Since(began))
	if err == nil {
		r, err = parseTaken(result)
	}
	if err == nil {
		b.counts.waits.Add(uint64(r.waits))
		err = call.deliver(&r)
	}
	if errors.Is(err, errForm) { // the OID is that of another function, which may have changed something
		b.oids[f].Store(0)
	}
	return r, err
}

// job returns a job that calls a deciding function, by its OID unless that is 0.
func (b *backend) job(ctx context.Context, f function, oid *atomic.Uint32, args *Args) *job {
	j := b.pool.job(ctx, f.sql(b.schema, args), args)
	j.function = oid
	return j
}

// call executes sql, the name of a function with its arguments, and returns the fields of the
// row.
func (b *backend) call(ctx context.Context, p *pool, sql string, args *Args) (*Fields, error) {
	b.counts.commands.Inc()
	f, err := p.row(p.job(ctx, "SELECT "+b.schema+sql, args))
	if err != nil {
		b.counts.failed(err)
		return nil, withAdvice(err)
	}
	return f, nil
}

func (b *backend) Forget(ctx context.Context, rule string, key []byte) (bool, error) {
	n, err := b.edit(ctx, "forget_1($1,$2,$3,$4,$5)", b.key(rule, key).Text(b.cfg.KeyPrefix+editsName))
	return n > 0, err
}

func (b *backend) Add(ctx context.Context, rule string, key []byte, n int64) (bool, error) {
	changed, err := b.edit(ctx, "add_1($1,$2,$3,$4,$5,$6)",
		b.key(rule, key).Int8(min(n, store.ExactIntMax)).Text(b.cfg.KeyPrefix+editsName))
	if err == nil && changed < 0 {
		err = errForeign
	}
	return changed > 0, err
}

// key returns the first arguments of functions that edit a key.
func (b *backend) key(rule string, key []byte) *Args {
	base := appendBase(nil, b.cfg.KeyPrefix, rule, key)
	clock, patience := b.timing()
	return new(Args).Int8(clock).Int4(patience).Int4(lockOf(base)).Bytes(base)
}

func (b *backend) edit(ctx context.Context, sql string, args *Args) (int32, error) {
	f, err := b.call(ctx, b.pool, sql, args)
	if err != nil {
		return 0, err
	}
	n := f.Int4()
	return n, f.Err
}

func (b *backend) Edits(ctx context.Context) (string, error) {
	args := new(Args).Texts([]string{b.cfg.KeyPrefix + editsName}).Bytes([]byte(b.cfg.KeyPrefix + epochName))
	f, err := b.pool.row(b.pool.job(ctx, "SELECT "+b.schema+"marks_1($1) || ' ' || "+b.schema+"epoch_9($2)", args))
	if err != nil {
		return "", fmt.Errorf("read the count of edits: %w", withAdvice(err))
	}
	edits := string(f.Bytes())
	return edits, f.Err
}

func (b *backend) Lease(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	return b.lease(ctx, b.pool, new(Args).Text(b.cfg.KeyPrefix+name).Text(owner).Int8(ttl.Milliseconds()))
}

func (b *backend) lease(ctx context.Context, p *pool, args *Args) (bool, error) {
	f, err := b.call(ctx, p, "lease_1($1,$2,$3)", args)
	if err != nil {
		return false, err
	}
	held := f.Bool()
	return held, f.Err
}

func (b *backend) Marks(ctx context.Context, names []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, max(store.DocumentTimeout(0), b.cfg.silence))
	defer cancel()
	marks, err := b.marks(ctx, b.documents, names)
	if err != nil {
		return nil, fmt.Errorf("look at documents: %w", err)
	}
	return marks, nil
}

func (b *backend) marks(ctx context.Context, p *pool, names []string) ([]string, error) {
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = b.cfg.KeyPrefix + name
	}
	result, err := p.query(ctx, "SELECT "+b.schema+"marks_1($1)", new(Args).Texts(full))
	if err != nil {
		return nil, withAdvice(err)
	}
	if len(result.Rows) != len(names) {
		return nil, errForm
	}
	marks := make([]string, len(names))
	for i, row := range result.Rows {
		marks[i] = string(row[0])
	}
	return marks, nil
}

func (b *backend) Read(ctx context.Context, name string) (store.Document, error) {
	row, err := b.document(ctx, store.DocumentBytesMax, "document_1($1)", new(Args).Text(b.cfg.KeyPrefix+name))
	if err != nil || row == nil {
		return store.Document{}, err
	}
	f := NewFields(row)
	doc := store.Document{Version: f.Int8(), Body: f.Bytes()}
	return doc, f.Err
}

func (b *backend) CompareAndSet(ctx context.Context, name string, version int64, body []byte) (int64, error) {
	row, err := b.document(ctx, len(body), "write_1($1,$2,$3)",
		new(Args).Text(b.cfg.KeyPrefix+name).Int8(version).Bytes(body))
	if err != nil {
		return 0, err
	}
	f := NewFields(row)
	written := f.Int8()
	return written, f.Err
}

// document calls a function about a document of up to that many bytes, and returns its row, or
// nil if there is none.
func (b *backend) document(ctx context.Context, bytes int, sql string, args *Args) ([][]byte, error) {
	limit := max(store.DocumentTimeout(bytes), b.cfg.silence)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	j := b.documents.job(ctx, "SELECT * FROM "+b.schema+sql, args)
	j.silent = limit
	result, err := b.documents.run(j)
	if err != nil || len(result.Rows) == 0 {
		return nil, withAdvice(err)
	}
	return result.Rows[0], nil
}

// Probe reports whether limits can be decided. The first time, and after a part of the schema was
// found missing, it also migrates the schema.
func (b *backend) Probe(ctx context.Context) error {
	known := b.lacking
	err := b.probe(ctx)
	if b.lacking && !known && !b.cfg.Manual {
		err = b.probe(ctx)
	}
	return err
}

func (b *backend) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrationTimeout)
	defer cancel()
	if !b.ready.Load() {
		if err := b.migrate(ctx); err != nil {
			return err
		}
		b.lacking = false
		b.ready.Store(true)
	}
	ctx, cancel = context.WithTimeout(ctx, max(b.cfg.silence, b.cfg.Timeout))
	defer cancel()
	probe := fmt.Sprintf("probe_1($1),%[1]stake_one_1(0,0,%[2]d,$1,0,0,0,1,0,0,0,'{}'),%[1]stake_many_1(0,0,'{}','{}','{}','{}','{}','{}','{0,0}')", b.schema, locksMax)
	if _, err := b.call(ctx, b.pool, probe, new(Args).Bytes([]byte(b.cfg.KeyPrefix+probeName))); err != nil {
		if code := codeOf(err); code == codeNoFunction || code == codeNoSchema || code == codeNoTable {
			b.lacking = true // part of the schema was removed
			b.ready.Store(false)
		}
		return fmt.Errorf("probe PostgreSQL: %w", err)
	}
	b.identify(ctx)
	return nil
}

// keepIdentifying looks up functions that are called by statements.
func (b *backend) keepIdentifying(stopping context.Context) {
	every.Interval(stopping.Done(), identifyPause, func(time.Time) {
		unknown := func(f function) bool { return b.oids[f].Load() == 0 }
		if b.ready.Load() && (unknown(takeAny) || unknown(takeOne) || unknown(takeMany)) {
			ctx, cancel := context.WithTimeout(stopping, identifyPause)
			b.identify(ctx)
			cancel()
		}
	})
}

// identify looks up the OIDs of the deciding functions, and tests whether the server, or a pooler
// in front of it, accepts calls by message. Without an answer in time the last known values stay.
func (b *backend) identify(ctx context.Context) {
	names, oids := make([]string, functionCount), [functionCount]uint32{}
	for f := range functions {
		names[f] = b.schema + functions[f]
	}
	result, err := b.pool.query(ctx, "SELECT to_regproc(name)::oid::int8 FROM unnest($1) name", new(Args).Texts(names))
	if err != nil || len(result.Rows) != len(oids) {
		return
	}
	for f, row := range result.Rows {
		oids[f] = uint32(NewFields(row).Int8()) // 0 if there is none
	}
	var tried atomic.Uint32
	f, args := newTake("").call(0, 0)
	tried.Store(oids[f])
	_, err = b.pool.run(b.job(ctx, f, &tried, args))
	switch class := b.Classify(err).Class; {
	case err != nil && (class == store.TimeoutFault || class == store.NoFault):
		return
	case err != nil || tried.Load() == 0: // the message was rejected
		clear(oids[:])
	}
	for f := range oids {
		b.oids[f].Store(oids[f])
	}
}

// migrate brings the schema to the version that this program needs. A later version is left
// unchanged.
func (b *backend) migrate(ctx context.Context) error {
	m := Migration{Schema: b.cfg.Schema, Function: "version", Version: schemaVersion,
		Script: Schema(b.cfg.Schema, b.cfg.Durable), Manual: b.cfg.Manual}
	version, err := m.run(ctx, b.pool, b.lacking)
	if err != nil || version == schemaVersion && (!b.lacking || b.cfg.Manual) {
		return err
	}
	b.cfg.Log.Info("Schema migrated", "from", version, "to", schemaVersion)
	return nil
}
