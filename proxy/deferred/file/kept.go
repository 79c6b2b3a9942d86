package file

import (
	"bytes"
	"encoding/binary"

	"weir/proxy/deferred"
)

// evictMax bounds the entries that are deleted because one has become final.
const evictMax = 256

func keptKey(client deferred.KeyedDigest, seq uint64) []byte {
	return append(client[:], seqKey(seq)...)
}

// keep records that a client has a final entry.
func (r records) keep(row *row, seq uint64) {
	client, size := r.seal.Client(row.Entry), row.size()
	must(r.bucket(bucketKept).Put(keptKey(client, seq), append(seqKey(uint64(size)), row.ID[:]...)))
	r.add(bucketKept, client[:], 1, size)
}

// unkeep records that a client no longer has a final entry. It does nothing if keep has not
// recorded the entry, which an earlier version may have stored.
func (r records) unkeep(client deferred.KeyedDigest, seq uint64) {
	key := keptKey(client, seq)
	value := r.bucket(bucketKept).Get(key)
	if value == nil {
		return
	}
	size := int64(binary.BigEndian.Uint64(value))
	must(r.bucket(bucketKept).Delete(key))
	if left, _ := r.add(bucketKept, client[:], -1, -size); left == 0 {
		must(r.bucket(bucketKept).Delete(client[:]))
	}
}

// kept returns the size of the final entries of a client.
func (r records) kept(client deferred.KeyedDigest) int64 {
	_, size := parseTotal(r.bucket(bucketKept).Get(client[:]))
	return size
}

// oldest returns the final entry of a client that was accepted first, except the one with the
// sequence number newest.
func (r records) oldest(client deferred.KeyedDigest, newest uint64) (seq uint64, id deferred.ID, ok bool) {
	c := r.bucket(bucketKept).Cursor()
	for k, v := c.Seek(keptKey(client, 0)); k != nil && bytes.HasPrefix(k, client[:]); k, v = c.Next() {
		if seq = binary.BigEndian.Uint64(k[len(client):]); seq != newest {
			return seq, deferred.ID(v[8:]), true
		}
	}
	return 0, id, false
}

// evict deletes the oldest final entries of e's client while they take more than they may. newest
// is the sequence number of the one that became final last.
func (t *turn) evict(e *deferred.Entry, newest uint64) {
	client := t.seal.Client(e)
	for range evictMax {
		if t.kept(client) <= t.q.cfg.Limits.FinalBytesMax() {
			return
		}
		seq, id, ok := t.oldest(client, newest)
		if !ok {
			return
		}
		if row, p, err := t.final(id); row != nil && err == nil && p.seq == seq {
			t.drop(row, p)
			t.evicted++
		} else { // unreadable, or an earlier version has deleted it
			t.unkeep(client, seq)
		}
	}
}

// keepAll creates the bucket of final entries by client in a file of an earlier version.
func (t *turn) keepAll() {
	if t.bucket(bucketKept) != nil {
		return
	}
	_, err := t.tx.CreateBucket(bucketKept)
	must(err)
	for _, name := range rowBuckets()[1:] {
		must(t.bucket(name).ForEach(func(k, _ []byte) error {
			seq := binary.BigEndian.Uint64(k)
			if row, err := t.row(name, seq); err == nil {
				t.keep(row, seq)
			}
			return nil
		}))
	}
}
