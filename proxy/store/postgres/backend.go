package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/every"
	"weir/proxy/store"
	"weir/proxy/store/lane"
)

const (
	// documentTimeout bounds an exchange about a small document. documentRate, in bytes per
	// second, is the slowest link over which a large one can be transferred in time.
	documentTimeout = 2 * time.Second
	documentRate    = 128 << 10
	// documentTimeoutMax bounds an exchange about the largest document.
	documentTimeoutMax = documentTimeout + store.DocumentBytesMax/documentRate*time.Second
	// migrationTimeout bounds creating the tables, or waiting for another proxy that creates them.
	migrationTimeout = 30 * time.Second
	// identifyPause is how long a function is called by statements before its OID is looked up
	// again.
	identifyPause = 10 * time.Second
	editsName     = namespace + "edits"
	probeName     = namespace + "probe"
)

// New returns a store in PostgreSQL. If PostgreSQL is unavailable the store starts in the failure
// mode and keeps trying. The error is about the configuration; see Config.Validate.
func New(cfg Config) (*lane.Store, error) {
	b, err := newBackend(cfg)
	if err != nil {
		return nil, err
	}
	return lane.New(b, b.cfg.Config)
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
	lacking   bool                         // part of the schema is missing; only used by Probe, which is not called concurrently
	counts    *counts
	lookout   lookout
	chores    sync.WaitGroup
	stop      context.CancelFunc
}

// newBackend returns a backend that connects when it is used. The error is about the
// configuration.
func newBackend(cfg Config) (*backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("use PostgreSQL: %w", err)
	}
	cfg = cfg.withDefaults()
	parsed, err := cfg.parse()
	if err != nil {
		return nil, fmt.Errorf("use PostgreSQL: %w", err)
	}
	b := &backend{cfg: cfg, schema: quoted(cfg.Schema) + ".", pool: newPool(parsed, cfg.Connections, cfg.silence), documents: newPool(parsed, 1, cfg.silence),
		counts: newCounts(), lookout: lookout{lock: make(chan struct{}, 1)}}
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

// Decide gives back places in queues and decides groups; see [store.Backend].
func (b *backend) Decide(ctx context.Context, batch *store.Batch) {
	var clock int64
	if b.cfg.clock != nil {
		clock = b.cfg.clock()
	}
	patience := max(1, int32(b.cfg.Timeout.Milliseconds()/2))
	for _, call := range takes(b.cfg.KeyPrefix, batch) {
		if _, err := b.take(ctx, call, clock, patience); err != nil {
			b.counts.failed(err)
			if codeOf(err) == codeLocked {
				b.lookout.waited()
			}
			err = withAdvice(err)
			call.fail(err)
		}
	}
}

// take calls the function that decides a call, and passes the result to its groups.
func (b *backend) take(ctx context.Context, call *take, clock int64, patience int32) (r taken, err error) {
	f, params := call.call(clock, patience)
	began := time.Now()
	result, err := b.pool.run(b.job(ctx, f, &b.oids[f], params))
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
func (b *backend) job(ctx context.Context, f function, oid *atomic.Uint32, params [][]byte) *job {
	return &job{ctx: ctx, silent: b.pool.silent, function: oid, sql: f.sql(b.schema), types: functions[f].types, params: params}
}

// call executes sql, the name of a function with its arguments, and returns the first value of
// the first row, or nil if there is none.
func (b *backend) call(ctx context.Context, p *pool, sql string, types []uint32, params ...[]byte) ([]byte, error) {
	b.counts.commands.Inc()
	result, err := p.query(ctx, "SELECT "+b.schema+sql, types, params...)
	if err != nil {
		b.counts.failed(err)
		return nil, withAdvice(err)
	}
	if len(result.Rows) == 0 {
		return nil, nil
	}
	return result.Rows[0][0], nil
}

// Forget removes a key; see [store.Backend].
func (b *backend) Forget(ctx context.Context, rule string, key []byte) (bool, error) {
	base := appendBase(nil, b.cfg.KeyPrefix, rule, key)
	n, err := b.edit(ctx, "forget_1($1,$2,$3,$4,$5)", []uint32{oidInt8, oidInt4, oidInt4, oidBytea, oidText}, base, b.edits())
	if err != nil {
		return false, fmt.Errorf("forget a key of rule %s: %w", rule, err)
	}
	return n > 0, nil
}

// Add gives a key n more permits; see [store.Backend].
func (b *backend) Add(ctx context.Context, rule string, key []byte, n int64) (bool, error) {
	base := appendBase(nil, b.cfg.KeyPrefix, rule, key)
	changed, err := b.edit(ctx, "add_1($1,$2,$3,$4,$5,$6)", []uint32{oidInt8, oidInt4, oidInt4, oidBytea, oidInt8, oidText},
		base, int8Value(min(n, exactMax)), b.edits())
	if err == nil && changed < 0 {
		err = errForeign
	}
	if err != nil {
		return false, fmt.Errorf("give to a key of rule %s: %w", rule, err)
	}
	return changed > 0, nil
}

// edits returns the name of the document whose version counts edits.
func (b *backend) edits() []byte { return []byte(b.cfg.KeyPrefix + editsName) }

// edit calls a function that changes a key.
func (b *backend) edit(ctx context.Context, sql string, types []uint32, base []byte, rest ...[]byte) (int32, error) {
	var clock int64
	if b.cfg.clock != nil {
		clock = b.cfg.clock()
	}
	params := append([][]byte{int8Value(clock), int4Value(max(1, int32(b.cfg.Timeout.Milliseconds()/2))), int4Value(lockOf(base)), base}, rest...)
	value, err := b.call(ctx, b.pool, sql, types, params...)
	if err != nil {
		return 0, err
	}
	return parseInt4(value)
}

// Edits returns a text that changes with every edit.
func (b *backend) Edits(ctx context.Context) (string, error) {
	marks, err := b.marks(ctx, b.pool, []string{editsName})
	if err != nil {
		return "", fmt.Errorf("read the count of edits: %w", err)
	}
	return marks[0], nil
}

// Lease takes, renews or releases a lease; see [store.Backend].
func (b *backend) Lease(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	return b.lease(ctx, b.pool, name, owner, ttl)
}

func (b *backend) lease(ctx context.Context, p *pool, name, owner string, ttl time.Duration) (bool, error) {
	value, err := b.call(ctx, p, "lease_1($1,$2,$3)", []uint32{oidText, oidText, oidInt8},
		[]byte(b.cfg.KeyPrefix+name), []byte(owner), int8Value(ttl.Milliseconds()))
	if err == nil && len(value) != 1 {
		err = errForm
	}
	if err != nil {
		return false, fmt.Errorf("hold lease %s: %w", name, err)
	}
	return value[0] == 1, nil
}

// Marks returns for each document a text that changes with the document.
func (b *backend) Marks(ctx context.Context, names []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, max(documentTimeout, b.cfg.silence))
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
	result, err := p.query(ctx, "SELECT "+b.schema+"marks_1($1)", []uint32{oidTextArray}, stringArray(oidText, full))
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

// Read returns a document; see [store.Documents].
func (b *backend) Read(ctx context.Context, name string) (store.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeoutMax)
	defer cancel()
	result, err := b.documents.run(&job{ctx: ctx, silent: documentTimeoutMax, sql: "SELECT * FROM " + b.schema + "document_1($1)",
		types: []uint32{oidText}, params: [][]byte{[]byte(b.cfg.KeyPrefix + name)}})
	if err != nil {
		return store.Document{}, fmt.Errorf("read document %s: %w", name, withAdvice(err))
	}
	if len(result.Rows) == 0 {
		return store.Document{}, nil
	}
	version, err := parseInt8(result.Rows[0][0])
	return store.Document{Version: version, Body: result.Rows[0][1]}, err
}

// CompareAndSet writes a document if it still has the given version; see [store.Backend].
func (b *backend) CompareAndSet(ctx context.Context, name string, version int64, body []byte) (int64, error) {
	limit := max(documentTimeout, b.cfg.silence) + time.Duration(len(body))*time.Second/documentRate
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := b.documents.run(&job{ctx: ctx, silent: limit, sql: "SELECT " + b.schema + "write_1($1,$2,$3)",
		types: []uint32{oidText, oidInt8, oidBytea}, params: [][]byte{[]byte(b.cfg.KeyPrefix + name), int8Value(version), append([]byte{}, body...)}})
	if err != nil {
		return 0, fmt.Errorf("write document %s: %w", name, withAdvice(err))
	}
	if len(result.Rows) != 1 {
		return 0, errForm
	}
	return parseInt8(result.Rows[0][0])
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
	if _, err := b.call(ctx, b.pool, probe, []uint32{oidBytea}, []byte(b.cfg.KeyPrefix+probeName)); err != nil {
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
	every.Pause(stopping.Done(), identifyPause, func(time.Time) {
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
		names[f] = b.schema + functions[f].name
	}
	result, err := b.pool.query(ctx, "SELECT to_regproc(name)::oid::int8 FROM unnest($1) name", []uint32{oidTextArray}, stringArray(oidText, names))
	if err != nil || len(result.Rows) != len(oids) {
		return
	}
	for f, row := range result.Rows {
		oid, _ := parseInt8(row[0]) // 0 if there is none
		oids[f] = uint32(oid)
	}
	var tried atomic.Uint32
	f, params := newTake("").call(0, 0)
	tried.Store(oids[f])
	_, err = b.pool.run(b.job(ctx, f, &tried, params))
	switch class := b.Classify(err).Class; {
	case err != nil && (class == store.LateFault || class == store.NoFault):
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
	m := Migration{Schema: b.cfg.Schema, Function: "version", Version: schemaVersion, Script: Schema(b.cfg.Schema, b.cfg.Durable), Manual: b.cfg.Manual}
	version, err := m.run(ctx, b.pool, b.lacking)
	if err != nil || version == schemaVersion && (!b.lacking || b.cfg.Manual) {
		return err
	}
	b.cfg.Log.Info("Schema migrated", "from", version, "to", schemaVersion)
	return nil
}
