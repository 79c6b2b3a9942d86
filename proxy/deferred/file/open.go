package file

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"weir/internal/program/ownfile"
	"weir/proxy/deferred"
)

// fileMode is the mode of the file, which is private because entries contain credentials.
const fileMode = 0o600

// formatVersion is the version of the file's format.
const formatVersion = 1

// The keys of bucketAbout.
var (
	aboutVersion = []byte("version")
	aboutKey     = []byte("key")  // keyWord, encrypted; missing if entries are not encrypted
	aboutSeen    = []byte("seen") // u64 µs: approximately the latest time seen
	keyWord      = []byte("weir")
)

// mapBytes is the address space that a file has from the start, so that it rarely has to wait for
// readers in order to be mapped again.
const mapBytes = 1 << 30

// Open opens or creates the queue in cfg.Path. Deliveries that were in progress when it was
// closed are cut off at now. The error is deferred.ErrInUse while another proxy uses it.
func Open(now time.Time, cfg Config) (*Queue, error) {
	q, err := open(now, cfg)
	if err != nil {
		return nil, fmt.Errorf("open queue %s: %w", cfg.Path, err)
	}
	go q.write()
	return q, nil
}

func open(now time.Time, cfg Config) (*Queue, error) {
	cfg.hooks.retry = cmp.Or(cfg.hooks.retry, retryAfter)
	q := &Queue{
		cfg: cfg, now: now, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), box: deferred.NewWriteBuffer[*op](),
		ended:  make(chan struct{}),
		leases: make(map[deferred.Lease]bool), givenUp: make(deferred.GivenUpCounts),
	}
	var err error
	if q.seal, err = deferred.NewSealer(cfg.Key); err != nil {
		return nil, err
	}
	if q.lock, err = lockPath(cfg.Path); err != nil {
		if errors.Is(err, deferred.ErrInUse) {
			err = fmt.Errorf("%w: end that one, or give each proxy a file of its own", err)
		}
		return nil, err
	}
	err = q.reopen()
	if err == nil {
		err = q.transact(func(t *turn) { t.begin(now) })
	}
	if err != nil {
		q.shut()
		unlock(q.lock)
		return nil, err
	}
	if q.index.Open > garbageMin { // reading has left as much garbage as the index uses
		debug.FreeOSMemory()
	}
	s := q.Stats()
	waiting, dead := s.Totals()
	q.log.Info("Opened queue", "waiting", waiting, "dead", dead, "unreadable", s.Unreadable)
	return q, nil
}

// An index is the part of the queue that is in memory.
type index struct {
	*Index
	stamped  int64 // µs: the latest time written to the file
	forgetAt int64 // µs: when the first final entry must be deleted
	damaged  int   // number of entries that were set aside
}

// garbageMin is the number of entries from which the garbage of opening is returned to the system
// at once.
const garbageMin = 10_000

// begin cuts off the deliveries that were in progress when the file was closed.
func (t *turn) begin(now time.Time) {
	t.keepAll()
	t.see(now)
	for _, i := range t.index.Delivering() {
		if row := t.open(i, deferred.Delivering); row != nil {
			t.cutOff(now, i, row)
		}
	}
}

// reopen closes the file if it is open, repairs or compacts it if necessary, opens it and loads
// the index.
func (q *Queue) reopen() error {
	q.reading.Lock()
	defer q.reading.Unlock()
	q.shut()
	if err := q.prepare(); err != nil {
		return err
	}
	db, err := openFile(q.cfg.Path, &q.opened)
	if err != nil {
		return err
	}
	q.db = db
	x := &index{Index: New(), forgetAt: math.MaxInt64}
	err = guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error { return x.load(records{tx, q.seal}) })
	})
	if err != nil {
		return err
	}
	q.state.Lock()
	defer q.state.Unlock()
	q.index = x
	return nil
}

// shut closes the file.
func (q *Queue) shut() {
	if q.db != nil {
		_ = guarded(q.db.Close) // committed data is durable
		q.db = nil
	}
}

// openFile opens a bbolt file for writing, and sets opened to it. With a nil opened the file is
// only read and its content is not trusted: bbolt does not look for free pages.
func openFile(path string, opened **os.File) (db *bbolt.DB, err error) {
	var f *os.File
	options := &bbolt.Options{
		ReadOnly: opened == nil, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
		InitialMmapSize: mapBytes, Timeout: lockTimeout, NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
			f, err = ownfile.Open(name, flag, mode)
			return f, err
		},
	}
	err = guarded(func() (err error) {
		db, err = bbolt.Open(path, fileMode, options)
		return err
	})
	if errors.Is(err, errPages) {
		_ = f.Close() // bbolt has not opened it
	}
	if opened != nil {
		*opened = f
	}
	return db, err
}

// lockTimeout is how long bbolt waits for its own lock, which only other tools hold.
const lockTimeout = 100 * time.Millisecond

// keepPrivate gives a file the mode fileMode.
func keepPrivate(path string) error {
	f, err := ownfile.Open(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return cmp.Or(err, errors.New("is not a regular file"))
	}
	return ownfile.SetMode(f, fileMode)
}

// prepare ensures that all pages of the file are readable, that it is written with the key, and
// that a large file is not mostly free.
func (q *Queue) prepare() error {
	_ = os.Remove(q.cfg.Path + suffixNew) // left by a crash
	_ = os.Remove(q.cfg.Path + suffixTry) // left by a crash
	err := keepPrivate(q.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return q.rewrite(nil, q.seal, false)
	}
	if err != nil {
		return err
	}
	db, err := openFile(q.cfg.Path, nil)
	switch {
	case notBolt(err):
		return q.replace(nil, err)
	case err != nil:
		return err
	}
	defer func() { _ = db.Close() }() // only read
	was, err := q.judge(db)
	switch {
	case errors.Is(err, errPages):
		return q.replace(db, err)
	case err != nil:
		return err
	}
	live, size, err := survey(db)
	switch {
	case err != nil:
		return q.replace(db, err)
	case was.Encrypts() != q.seal.Encrypts():
		q.log.Info("Encrypting the queue")
		return q.rewrite(db, was, false)
	case size > compactMin && live < size/2:
		if err := q.rewrite(db, q.seal, false); err != nil {
			q.log.Warn("Queue cannot be made smaller", "reason", err)
		}
	}
	return nil
}

// compactMin is the size in bytes from which a file is compacted at the start, if more than half
// of it is free.
const compactMin = 16 << 20

// notBolt reports whether a file cannot be opened because of its content.
func notBolt(err error) bool {
	return errors.Is(err, errPages) || errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrChecksum) ||
		errors.Is(err, berrors.ErrVersionMismatch)
}

// judge checks that the file is one of a queue, and returns the sealer with which it was written.
func (q *Queue) judge(db *bbolt.DB) (was deferred.Sealer, err error) {
	err = guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			about := tx.Bucket(bucketAbout)
			if about == nil {
				return fmt.Errorf("%w: it is not a queue", errPages)
			}
			if v := about.Get(aboutVersion); len(v) != 1 || v[0] != formatVersion {
				return fmt.Errorf("it is of version %x, this program knows %d", v, formatVersion)
			}
			word := about.Get(aboutKey)
			if word == nil {
				return nil
			}
			if !q.seal.Encrypts() {
				return errors.New("it is encrypted: DEFER_KEY_FILE must name the file with its key")
			}
			if plain, err := q.seal.Open(word, aboutKey); err != nil || !bytes.Equal(plain, keyWord) {
				return errors.New("it is encrypted with another key than that of DEFER_KEY_FILE")
			}
			was = q.seal
			return nil
		})
	})
	return was, err
}

// survey reads all pages, and returns the bytes in use and the size of the file.
func survey(db *bbolt.DB) (live, size int64, err error) {
	err = guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			size = tx.Size()
			return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
				return b.ForEach(func(k, v []byte) error {
					live += int64(len(k)+len(v)) + 16
					return nil
				})
			})
		})
	})
	return live, size, err
}

func (x *index) load(r records) error {
	last := uint64(0)
	for _, name := range recorded() {
		last = max(last, r.last(name))
	}
	if err := r.bucket(bucketOpen).ForEach(func(k, _ []byte) error {
		seq := binary.BigEndian.Uint64(k)
		if row, err := r.row(bucketOpen, seq); err == nil {
			x.Add(row.Entry, row.size(), seq)
		} else {
			x.damaged++
		}
		return nil
	}); err != nil {
		return err
	}
	x.Last = last
	_ = r.bucket(bucketDamaged).ForEach(func(_, _ []byte) error { x.damaged++; return nil })
	_ = r.bucket(bucketPaused).ForEach(func(k, _ []byte) error { x.Rule(string(k)).Paused = true; return nil })
	_ = r.bucket(bucketTotals).ForEach(func(k, v []byte) error { x.loadTotal(k, v); return nil })
	if k, _ := r.bucket(bucketForget).Cursor().First(); k != nil {
		x.forgetAt = int64(binary.BigEndian.Uint64(k))
	}
	if seen := r.bucket(bucketAbout).Get(aboutSeen); len(seen) == 8 {
		x.Seen = int64(min(binary.BigEndian.Uint64(seen), math.MaxInt64))
		x.stamped = x.Seen
	}
	x.Reschedule()
	return nil
}

// loadTotal reads the count of final entries of a rule and state.
func (x *index) loadTotal(key, value []byte) {
	if len(key) == 0 || key[0] >= byte(deferred.StateCount) {
		return
	}
	entries, bytes := parseTotal(value)
	c := &x.Rule(string(key[1:])).States[key[0]]
	c.Entries += int(entries)
	c.Bytes += bytes
	x.Bytes += bytes
}

// syncFolder makes the names in the folder of path durable.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = d.Sync()
	_ = d.Close() // only read
	return err
}
