package file

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"go.etcd.io/bbolt"

	"weir/proxy/deferred"
)

// suffixNew is the suffix of a file that will replace another one.
const suffixNew = ".new"

// copyBytesMax bounds the bytes that are copied in one transaction.
const copyBytesMax = 16 << 20

// rewrite replaces the file by one with everything that can be read of src, which was written
// with the sealer was. A nil src is empty. If damaged is true and nothing can be read, it
// searches all pages for requests.
func (q *Queue) rewrite(src *bbolt.DB, was deferred.Sealer, damaged bool) error {
	path := q.cfg.Path + suffixNew
	err := q.copyTo(path, src, was, damaged)
	if err == nil {
		err = os.Rename(path, q.cfg.Path)
	}
	if err != nil {
		_ = os.Remove(path) // usually it does not exist
		return err
	}
	return syncFolder(q.cfg.Path)
}

// replace keeps the damaged file aside, and continues with a copy of everything that can be read.
func (q *Queue) replace(src *bbolt.DB, why error) error {
	aside := ""
	for n := 1; ; n++ { // the first unused name
		aside = fmt.Sprintf("%s.damaged-%d", q.cfg.Path, n)
		err := os.Link(q.cfg.Path, aside)
		if err == nil {
			break
		}
		if !os.IsExist(err) || n == asideMax {
			return fmt.Errorf("keep the damaged file aside: %w", err)
		}
	}
	if err := q.rewrite(src, q.seal, true); err != nil {
		_ = os.Remove(aside) // the file still has its own name
		return fmt.Errorf("%w, and cannot be repaired: %w", why, err)
	}
	q.log.Error("Queue was damaged, continuing with what can be read", "kept", aside, "reason", why)
	return nil
}

// asideMax bounds the damaged files that are kept.
const asideMax = 100

// copyTo writes a copy to path.
func (q *Queue) copyTo(path string, src *bbolt.DB, was deferred.Sealer, damaged bool) error {
	var opened *os.File
	dst, err := openFile(path, &opened)
	if err != nil {
		return err
	}
	dst.NoSync = true
	err = q.copyAll(dst, src, was, damaged)
	if err == nil {
		err = dst.Sync()
	}
	if closeErr := dst.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (q *Queue) copyAll(dst, src *bbolt.DB, was deferred.Sealer, damaged bool) error {
	c := &copier{dst: dst, to: q.seal, from: was, forget: q.now.Add(q.cfg.Limits.DeadKeep).UnixMicro()}
	if err := c.begin(); err != nil {
		return err
	}
	defer func() { _ = c.tx.Rollback() }() // after an error
	for _, name := range append(derived(), bucketAbout, bucketPaused) {
		if _, err := c.tx.CreateBucket(name); err != nil {
			return err
		}
	}
	about := c.tx.Bucket(bucketAbout)
	must(about.Put(aboutVersion, []byte{formatVersion}))
	if q.seal.Encrypts() {
		must(about.Put(aboutKey, q.seal.Seal(keyWord, aboutKey)))
	}
	if src != nil {
		if err := c.copyFrom(src); err != nil {
			return err
		}
	}
	if damaged && c.copied == 0 {
		found, err := q.salvage(c)
		if err != nil {
			return err
		}
		q.log.Warn("Queue's index cannot be read; requests that were found are now dead letters", "found", found)
	}
	return c.tx.Commit()
}

// A copier copies the readable part of a queue.
//
// Owned by the caller of copyAll.
type copier struct {
	dst      *bbolt.DB
	tx       *bbolt.Tx
	to, from deferred.Sealer
	bytes    int
	copied   int    // number of values
	last     uint64 // the largest sequence number seen
	forget   int64  // µs: when dead letters are deleted
	err      error  // of a write
}

func (c *copier) begin() (err error) {
	if c.tx, err = c.dst.Begin(true); err != nil {
		return err
	}
	c.bytes = 0
	for _, name := range recorded() {
		if b, _ := c.tx.CreateBucketIfNotExists(name); b != nil {
			b.FillPercent = fillPercent
		}
	}
	return nil
}

// records returns the writer of the copy.
func (c *copier) records() records { return records{c.tx, c.to} }

func (c *copier) copyFrom(src *bbolt.DB) error {
	tx, err := src.Begin(false)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // only read
	for _, name := range recorded() {
		_ = guarded(func() error {
			c.last = max(c.last, records{tx, c.from}.last(name))
			return nil
		})
	}
	for _, name := range recorded() {
		c.copyBucket(tx, name)
	}
	c.adopt()
	_ = guarded(func() error {
		return c.tx.Bucket(bucketAbout).Put(aboutSeen, append([]byte{}, tx.Bucket(bucketAbout).Get(aboutSeen)...))
	})
	_ = guarded(func() error {
		return tx.Bucket(bucketPaused).ForEach(func(k, v []byte) error { return c.tx.Bucket(bucketPaused).Put(k, v) })
	})
	return c.err
}

// probesMax bounds the keys that are searched for beyond unreadable pages.
const probesMax = 1 << 20

// copyBucket copies the readable part of a bucket. Keys are numbers, so beyond an unreadable page
// it searches for the next ones with growing steps.
func (c *copier) copyBucket(tx *bbolt.Tx, name []byte) {
	next, failed := uint64(0), 0
	for next <= c.last && failed < probesMax && c.err == nil {
		err := guarded(func() error {
			cursor := tx.Bucket(name).Cursor()
			for k, v := cursor.Seek(seqKey(next)); k != nil && c.err == nil; k, v = cursor.Next() {
				c.copyValue(name, k, v)
				next = binary.BigEndian.Uint64(k) + 1
			}
			return nil
		})
		if err == nil {
			return
		}
		failed++
		next += uint64(1 + failed/stepAfter)
	}
}

// stepAfter is the number of failures after which the step grows.
const stepAfter = 1 << 16

// copyValue copies one value, or sets it aside if it cannot be read.
func (c *copier) copyValue(name, key, value []byte) {
	seq := binary.BigEndian.Uint64(key)
	value = append([]byte{}, value...)
	plain, err := c.from.Open(value, aad(name, key))
	var r *row
	switch {
	case string(name) == string(bucketDamaged):
		must(c.tx.Bucket(name).Put(key, value))
		return
	case err != nil:
	case string(name) == string(bucketRequests) || string(name) == string(bucketAnswers):
		_, err = deferred.ParseEntry(plain)
	default:
		r, err = parseRow(plain)
	}
	switch {
	case err != nil:
		must(c.tx.Bucket(bucketDamaged).Put(key, value))
	case r != nil && r.State.Final():
		c.records().putFinal(r, seq)
	default:
		c.records().put(name, seq, plain)
	}
	c.copied++
	c.wrote(len(value))
}

// wrote counts n bytes, and begins a new transaction when the current one has become large.
func (c *copier) wrote(n int) {
	if c.bytes += n; c.bytes > copyBytesMax && c.err == nil {
		if c.err = c.tx.Commit(); c.err == nil {
			c.err = c.begin()
		}
	}
}

// adopt creates rows for requests whose rows cannot be read. It is unknown whether these were
// sent: those with a key wait, the others become dead letters.
func (c *copier) adopt() {
	if c.err != nil {
		return
	}
	requests := c.tx.Bucket(bucketRequests)
	known := func(seq uint64) bool {
		return slices.ContainsFunc(rowBuckets(), func(name []byte) bool { return c.tx.Bucket(name).Get(seqKey(seq)) != nil })
	}
	var orphans []uint64
	_ = requests.ForEach(func(k, _ []byte) error {
		if seq := binary.BigEndian.Uint64(k); !known(seq) {
			orphans = append(orphans, seq)
		}
		return nil
	})
	for _, seq := range orphans {
		e, err := c.records().entry(bucketRequests, seq)
		if err != nil || e == nil {
			continue
		}
		e.Last.Error = "its outcome can no longer be read"
		if e.Keyed() {
			c.records().put(bucketOpen, seq, newRow(e).append(nil))
		} else {
			c.deadLetter(seq, e)
		}
	}
}

// deadLetter writes the row of a request of which it is unknown whether it was sent.
func (c *copier) deadLetter(seq uint64, e *deferred.Entry) {
	r := newRow(e)
	r.State, r.forget = deferred.Unknown, c.forget
	c.records().putFinal(r, seq)
}
