package postgres

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/program/metric"
)

const (
	// lookPause is the interval for reading the state of the database.
	lookPause = 5 * time.Second
	// longTransaction is how long a transaction may be open before a warning: in this time a row
	// that changes 2,000 times a second gets 20,000 dead versions.
	longTransaction = 10 * time.Second
	lookWarnings    = time.Minute // between two warnings of the same kind
	// longLock is how long a transaction that holds a lock may be open before a warning that a
	// batch has timed out waiting for it.
	longLock = time.Second
)

// holderSQL finds the oldest transaction that holds a lock which batches need: of a row of
// keys, or of a key; $3 is its age from which on it counts, in seconds. Of another role's
// transactions the age is null without the right to see it. Vacuum's locks block no statement here.
const holderSQL = `SELECT l.pid, (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000)::int8
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.relation = to_regclass($1) AND l.mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock') OR l.locktype = 'advisory' AND l.classid = $2::int8::oid)
  AND coalesce(a.xact_start < clock_timestamp() - $3::int4 * interval '1 s', true)
ORDER BY a.xact_start LIMIT 1`

// lookSQL reads what a sight has. The oldest transaction is that of this database which
// keeps dead rows from being removed: one that has a snapshot or has written, or one that
// is prepared; those of vacuum do not count. Without the right to see the transactions of
// others it is null. Tables of another Weir and of extensions do not count;
// others are counted only if $2 is true, as there may be thousands.
const lookSQL = `SELECT t.bytes, t.dead, CASE WHEN pg_has_role('pg_read_all_stats', 'usage') THEN coalesce(x.age, 0) END, coalesce(x.pid, 0), o.tables, o.example
FROM (SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::int8 AS bytes, coalesce(sum(n_dead_tup), 0)::int8 AS dead
    FROM pg_stat_all_tables WHERE schemaname = $1 AND relname IN ('keys', 'log')) t
  LEFT JOIN (SELECT (extract(epoch FROM clock_timestamp() - since) * 1000000)::int8 AS age, pid FROM (
      SELECT xact_start AS since, pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND backend_type <> 'autovacuum worker'
      UNION ALL SELECT prepared, 0 FROM pg_prepared_xacts WHERE database = current_database()) a
    WHERE since IS NOT NULL ORDER BY since LIMIT 1) x ON true
  CROSS JOIN (SELECT count(*) AS tables, coalesce(min(n.nspname || '.' || c.relname), '') AS example FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
      AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proname = 'take_1')
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') AND $2) o`

// A snapshot is the state of the database at one time.
type snapshot struct {
	bytes, dead int64 // of the tables keys and log, with indexes; dead rows as last counted by the server
	oldest      int64 // oldest transaction, in µs; of process pid, 0 for a prepared one
	pid         int32
	visible     bool   // oldest is that of all users
	others      int64  // number of other tables; 0 if they were already reported
	example     string // of them
}

// A monitor reads the state of the database periodically.
//
// Owned by the goroutine of keepLooking, except last and lock.
type monitor struct {
	last           atomic.Pointer[snapshot] // nil: not read yet
	slow           time.Time                // when a long transaction was last reported
	held           time.Time                // when a transaction that holds a lock was last reported
	lock           chan struct{}            // receives when a batch has timed out waiting for a lock
	reportedOthers bool                     // other tables were reported
}

// keepLooking updates the gauges and warns of conditions that make decisions slow.
func (b *backend) keepLooking(stopping context.Context) {
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		if b.ready.Load() {
			ctx, cancel := context.WithTimeout(stopping, lookPause)
			seen, err := b.look(ctx)
			cancel()
			if err != nil { // other calls report it
				seen = nil
			}
			b.monitor.last.Store(seen)
			b.warn(time.Now(), seen)
		}
		for waits := true; waits; {
			select {
			case <-stopping.Done():
				return
			case <-tick.C:
				waits = false
			case <-b.monitor.lock:
				b.findHolder(stopping)
			}
		}
	}
}

// findHolder warns, once a minute, of a transaction that has held a lock of a key for longer than
// longLock. Otherwise this would not be reported while other keys can be decided.
func (b *backend) findHolder(stopping context.Context) {
	if l := &b.monitor; !l.held.IsZero() && time.Since(l.held) < lookWarnings {
		return
	}
	ctx, cancel := context.WithTimeout(stopping, longLock+lookPause)
	defer cancel()
	select {
	case <-time.After(longLock): // a lock held for less time does little harm
	case <-ctx.Done():
		return
	}
	result, err := b.documents.query(ctx, holderSQL,
		new(Args).Text(b.schema+"keys").Int8(lockClass).Int4(int32(longLock/time.Second)))
	if err != nil || len(result.Rows) == 0 {
		return // the transaction has ended
	}
	f := NewFields(result.Rows[0])
	pid, n := f.Int4(), f.Int8()
	if f.Err != nil {
		return
	}
	b.monitor.held = time.Now()
	age := "unknown" // null, without pg_read_all_stats
	if n > 0 {
		age = (time.Duration(n) * time.Microsecond).Round(100 * time.Millisecond).String()
	}
	b.cfg.Log.Warn("Another transaction has locked keys, whose requests follow the failure mode", "pid", pid, "age", age,
		"remedy", "end it, or have it commit before half of POSTGRES_TIMEOUT has passed")
}

// look reads the state of the database, over the connection for documents.
func (b *backend) look(ctx context.Context) (*snapshot, error) {
	result, err := b.documents.query(ctx, lookSQL, new(Args).Text(b.cfg.Schema).Bool(!b.monitor.reportedOthers))
	if err != nil {
		return nil, withAdvice(err)
	}
	if len(result.Rows) != 1 {
		return nil, errForm
	}
	return parseSight(result.Rows[0])
}

// parseSight parses the row that lookSQL returns.
func parseSight(row [][]byte) (*snapshot, error) {
	if len(row) != 6 {
		return nil, errForm
	}
	f := NewFields(row)
	s := &snapshot{visible: row[2] != nil}
	s.bytes, s.dead, s.oldest = f.Int8(), f.Int8(), f.Int8()
	s.pid, s.others, s.example = f.Int4(), f.Int8(), string(f.Bytes())
	return s, f.Err
}

// warn logs conditions that make decisions slow: other tables once, a long transaction once a
// minute.
func (b *backend) warn(now time.Time, s *snapshot) {
	if s == nil {
		return
	}
	l := &b.monitor
	if s.others > 0 && !l.reportedOthers {
		l.reportedOthers = true
		b.cfg.Log.Warn("The database of POSTGRES_URL has other tables: their long transactions make decisions slow, so "+
			"give Weir a database of its own",
			"tables", s.others, "such_as", s.example)
	}
	if age := time.Duration(s.oldest) * time.Microsecond; s.visible && age >= longTransaction &&
		(l.slow.IsZero() || now.Sub(l.slow) >= lookWarnings) {
		l.slow = now
		who := strconv.Itoa(int(s.pid))
		if s.pid == 0 {
			who = "prepared"
		}
		b.cfg.Log.Warn(fmt.Sprintf("A transaction of %.0f s in this database keeps dead rows alive", age.Seconds()),
			"pid", who,
			"remedy", "end it, or have it run in another database")
	}
}

// register adds the gauges, which have no samples before the first reading.
func (m *monitor) register(set *metric.Set) {
	gauge := func(name, help string, read func(s *snapshot) (float64, bool)) {
		set.Gauges("ratelimiter_postgres_"+name, help, func(add func(labels string, v float64)) {
			if s := m.last.Load(); s != nil {
				if v, ok := read(s); ok {
					add("", v)
				}
			}
		})
	}
	gauge("table_bytes", "size of the tables of keys with their indexes",
		func(s *snapshot) (float64, bool) { return float64(s.bytes), true })
	gauge("dead_rows", "old versions of rows that PostgreSQL has not removed, as it last counted them",
		func(s *snapshot) (float64, bool) { return float64(s.dead), true })
	gauge("oldest_transaction_seconds",
		"age of the oldest transaction in this database, which keeps dead rows alive; absent without the rights "+
			"of pg_read_all_stats",
		func(s *snapshot) (float64, bool) { return float64(s.oldest) / 1e6, s.visible })
}
