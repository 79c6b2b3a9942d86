package file

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"

	"weir/proxy/deferred"
)

// The buckets of the file. Entries are stored under their sequence numbers: those in lines in
// bucketOpen, the others in one bucket for each state. Large values are separate from those that
// are read at the start. The last five buckets are derived from the rows of final entries.
var (
	bucketAbout    = []byte("about")    // version, encrypted word, time, clean
	bucketOpen     = []byte("open")     // row of an entry in a line
	bucketRequests = []byte("requests") // the entry as accepted
	bucketAnswers  = []byte("answers")  // an entry that contains only a Result
	bucketPaused   = []byte("paused")   // rule: empty value
	bucketDamaged  = []byte("damaged")  // unreadable rows, unchanged

	bucketIDs    = []byte("ids")    // ID: place
	bucketScopes = []byte("scopes") // Scope: ID, unless NeverSent of the entry is true
	bucketForget = []byte("forget") // u64 µs, u64 sequence number: ID
	bucketTotals = []byte("totals") // u8 state, rule: u64 entries, u64 bytes
	bucketKept   = []byte("kept")   // client: u64 entries, u64 bytes; client, u64 sequence number: u64 bytes, ID
)

// bucketOf returns the bucket of the rows of entries in a state.
func bucketOf(s deferred.State) []byte {
	if !s.Final() {
		return bucketOpen
	}
	return []byte(s.String())
}

// rowBuckets returns the buckets of rows, beginning with that of open entries.
func rowBuckets() [][]byte {
	buckets := [][]byte{bucketOpen}
	for s := deferred.Done; int(s) < deferred.StateCount; s++ {
		buckets = append(buckets, bucketOf(s))
	}
	return buckets
}

// recorded returns the buckets that a repair copies. The others are derived from them.
func recorded() [][]byte { return append(rowBuckets(), bucketRequests, bucketAnswers, bucketDamaged) }

// derived returns the buckets that are derived from the others.
func derived() [][]byte {
	return [][]byte{bucketIDs, bucketScopes, bucketForget, bucketTotals, bucketKept}
}

// A row is the part of an entry that is written with each change: everything except Head and
// Body, also those of its Result.
type row struct {
	*deferred.Entry
	request uint32 // size of Head and Body, in bytes
	answer  uint32 // size of those of the Result, in bytes
	forget  int64  // µs: when the final entry is deleted
}

// rowHead is the length of the header before the entry, in bytes.
const rowHead = 16

// newRow returns the row of a complete entry.
func newRow(e *deferred.Entry) *row {
	stripped := *e
	r := &row{Entry: &stripped, request: uint32(len(e.Head) + len(e.Body))}
	stripped.Head, stripped.Body = nil, nil
	r.answered(e.Result)
	return r
}

// answered sets the Result of an entry.
func (r *row) answered(result *deferred.Result) {
	r.Result, r.answer = nil, 0
	if result == nil {
		return
	}
	r.Result, r.answer = result.Brief(), uint32(result.Size())
}

// size returns the size of the complete entry for the bounds.
func (r *row) size() int64 { return r.Size() + int64(r.request) + int64(r.answer) }

func (r *row) append(out []byte) []byte {
	out = binary.BigEndian.AppendUint32(out, r.request)
	out = binary.BigEndian.AppendUint32(out, r.answer)
	out = binary.BigEndian.AppendUint64(out, uint64(r.forget))
	return deferred.AppendEntry(out, r.Entry)
}

func parseRow(data []byte) (*row, error) {
	if len(data) < rowHead {
		return nil, deferred.ErrDamaged
	}
	e, err := deferred.ParseEntry(data[rowHead:])
	if err != nil {
		return nil, err
	}
	return &row{
		Entry: e, request: binary.BigEndian.Uint32(data), answer: binary.BigEndian.Uint32(data[4:]),
		forget: int64(binary.BigEndian.Uint64(data[8:])),
	}, nil
}

// A place is the position of the row of a final entry.
type place struct {
	state deferred.State
	seq   uint64
}

func (p place) bytes() []byte { return binary.BigEndian.AppendUint64([]byte{byte(p.state)}, p.seq) }

func parsePlace(b []byte) (p place, ok bool) {
	if len(b) != 9 || !deferred.State(b[0]).Final() {
		return p, false
	}
	return place{deferred.State(b[0]), binary.BigEndian.Uint64(b[1:])}, true
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// records reads and writes the buckets in a transaction.
//
// Owned by the goroutine that has begun the transaction.
type records struct {
	tx   *bbolt.Tx
	seal deferred.Sealer
}

func (r records) bucket(name []byte) *bbolt.Bucket { return r.tx.Bucket(name) }

// last returns the largest sequence number in a bucket, or 0.
func (r records) last(name []byte) uint64 {
	if k, _ := r.bucket(name).Cursor().Last(); k != nil {
		return binary.BigEndian.Uint64(k)
	}
	return 0
}

// aad returns the additional data that binds an encrypted value to its place.
func aad(bucket, key []byte) []byte { return append(append([]byte(nil), bucket...), key...) }

// get returns a value of a bucket of entries, or nil if there is none.
func (r records) get(bucket []byte, seq uint64) ([]byte, error) {
	key := seqKey(seq)
	value := r.bucket(bucket).Get(key)
	if value == nil {
		return nil, nil
	}
	return r.seal.Open(value, aad(bucket, key))
}

func (r records) put(bucket []byte, seq uint64, plain []byte) {
	key := seqKey(seq)
	must(r.bucket(bucket).Put(key, r.seal.Seal(plain, aad(bucket, key))))
}

func (r records) remove(bucket []byte, seq uint64) { must(r.bucket(bucket).Delete(seqKey(seq))) }

// must panics on errors that bbolt returns only for misuse: keys and values that are too large,
// unknown buckets, and transactions that have ended.
func must(err error) {
	if err != nil {
		panic("bug: " + err.Error())
	}
}

// row returns the row of an entry, or nil if there is none.
func (r records) row(bucket []byte, seq uint64) (*row, error) {
	data, err := r.get(bucket, seq)
	if data == nil || err != nil {
		return nil, err
	}
	return parseRow(data)
}

// entry returns an entry from one of the buckets that contain entries, or nil if there is none.
func (r records) entry(bucket []byte, seq uint64) (*deferred.Entry, error) {
	data, err := r.get(bucket, seq)
	if data == nil || err != nil {
		return nil, err
	}
	return deferred.ParseEntry(data)
}

// whole returns the complete entry of a row.
func (r records) whole(row *row, seq uint64) (*deferred.Entry, error) {
	e := *row.Entry
	if row.request > 0 {
		request, err := r.entry(bucketRequests, seq)
		if err != nil {
			return nil, err
		}
		if request == nil {
			return nil, deferred.ErrDamaged
		}
		e.Head, e.Body = request.Head, request.Body
	}
	if row.answer > 0 {
		answer, err := r.entry(bucketAnswers, seq)
		if err != nil {
			return nil, err
		}
		if answer == nil || answer.Result == nil {
			return nil, deferred.ErrDamaged
		}
		e.Result = answer.Result
	}
	return &e, nil
}

// putAnswer writes the Result of an entry, or removes the previous one.
func (r records) putAnswer(seq uint64, result *deferred.Result) {
	if result.Size() == 0 {
		r.remove(bucketAnswers, seq)
		return
	}
	r.put(bucketAnswers, seq, deferred.AppendEntry(nil, &deferred.Entry{Result: result}))
}

// putFinal writes the row of a final entry, and the derived values.
func (r records) putFinal(row *row, seq uint64) {
	r.put(bucketOf(row.State), seq, row.append(nil))
	must(r.bucket(bucketIDs).Put(row.ID[:], place{row.State, seq}.bytes()))
	if row.Keyed() && !row.NeverSent() {
		must(r.bucket(bucketScopes).Put(row.Scope[:], row.ID[:]))
	}
	must(r.bucket(bucketForget).Put(forgetKey(row, seq), row.ID[:]))
	r.total(row, 1)
	r.keep(row, seq)
}

// removeFinal removes what putFinal has written.
func (r records) removeFinal(row *row, seq uint64) {
	r.remove(bucketOf(row.State), seq)
	must(r.bucket(bucketIDs).Delete(row.ID[:]))
	if row.Keyed() && bytes.Equal(r.bucket(bucketScopes).Get(row.Scope[:]), row.ID[:]) {
		must(r.bucket(bucketScopes).Delete(row.Scope[:]))
	}
	must(r.bucket(bucketForget).Delete(forgetKey(row, seq)))
	r.total(row, -1)
	r.unkeep(r.seal.Client(row.Entry), seq)
}

func forgetKey(row *row, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(seqKey(uint64(row.forget)), seq)
}

// total adds n times row to the counts of its rule and state.
func (r records) total(row *row, n int64) {
	r.add(bucketTotals, append([]byte{byte(row.State)}, row.Rule...), n, n*row.size())
}

// add adds to counts. It returns them.
func (r records) add(bucket, key []byte, n, size int64) (entries, bytes int64) {
	entries, bytes = parseTotal(r.bucket(bucket).Get(key))
	entries, bytes = max(0, entries+n), max(0, bytes+size)
	value := binary.BigEndian.AppendUint64(nil, uint64(entries))
	must(r.bucket(bucket).Put(key, binary.BigEndian.AppendUint64(value, uint64(bytes))))
	return entries, bytes
}

func parseTotal(value []byte) (entries, bytes int64) {
	if len(value) != 16 {
		return 0, 0
	}
	return int64(binary.BigEndian.Uint64(value)), int64(binary.BigEndian.Uint64(value[8:]))
}
