package postgres

import (
	"encoding/binary"
	"errors"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/store/postgres"
)

// Names of the sealed columns of an entry. A sealed value is bound to the name and the entry's ID.
const (
	columnAbout   = "about"   // the entry without the columns below and those that are not sealed
	columnRequest = "request" // u32 length of the head, head, body
	columnLast    = "last"    // an entry with nothing but Last
	columnResult  = "result"  // an entry with nothing but a Result
)

// A vault encodes entries for storage, and decodes them.
//
// Safe for concurrent use: so is the clock, and the sealer is immutable.
type vault struct {
	seal  deferred.Sealer
	clock clock
}

// requestOf returns the name to which the request of an entry is bound.
func requestOf(id deferred.ID) []byte { return append([]byte(columnRequest), id[:]...) }

// about encodes an entry without its request and without what has its own column.
func (v *vault) about(e *deferred.Entry) []byte {
	stripped := *e
	stripped.Head, stripped.Body = nil, nil
	stripped.Accepted, stripped.Expires, stripped.Due = time.Time{}, time.Time{}, time.Time{}
	return v.seal.SealPart(columnAbout, e.ID, &stripped)
}

func (v *vault) request(e *deferred.Entry) []byte {
	plain := make([]byte, 0, 4+len(e.Head)+len(e.Body))
	plain = append(binary.BigEndian.AppendUint32(plain, uint32(len(e.Head))), e.Head...)
	return v.seal.Seal(append(plain, e.Body...), requestOf(e.ID))
}

func (v *vault) last(id deferred.ID, last deferred.LastAttempt) []byte {
	if !last.At.IsZero() {
		last.At = time.UnixMicro(v.clock.there(last.At))
	}
	return v.seal.SealPart(columnLast, id, &deferred.Entry{Last: last})
}

func (v *vault) result(id deferred.ID, result *deferred.Result) []byte {
	return v.seal.SealPart(columnResult, id, &deferred.Entry{Result: result})
}

// A row is an entry as the functions return it.
type row struct {
	id                                        deferred.ID
	seq, state, accepted, expires, due, tries int64
	token, cut                                int64
	about, request, last, result              []byte
}

// readRow reads a deferred_entry_1; ok is false when there is none.
func readRow(f *postgres.Fields) (r row, ok bool, err error) {
	r.id = f.UUID()
	r.seq, r.state, r.accepted, r.expires, r.due, r.tries = f.Int8(), f.Int8(), f.Int8(), f.Int8(), f.Int8(), f.Int8()
	r.token, r.cut = f.Int8(), f.Int8()
	r.about, r.request, r.last, r.result = f.Bytes(), f.Bytes(), f.Bytes(), f.Bytes()
	return r, r.id != deferred.ID{}, f.Err
}

// errOther is the error of an entry that was stored under another ID.
var errOther = errors.New("it is another entry")

// entry decodes the entry of a row. If it cannot be read, an error is returned together with the
// parts that could.
func (v *vault) entry(r *row) (*deferred.Entry, error) {
	e, err := v.seal.OpenPart(columnAbout, r.id, r.about)
	if err != nil {
		return nil, err
	}
	if e.ID != r.id {
		return nil, errOther
	}
	e.State, e.Attempts = deferred.State(r.state), int(r.tries)
	e.Accepted, e.Expires, e.Due = v.clock.here(r.accepted), v.clock.here(r.expires), v.clock.here(r.due)
	if len(r.request) > 0 {
		plain, err := v.seal.Open(r.request, requestOf(r.id))
		if err != nil {
			return e, err
		}
		if len(plain) < 4 || uint64(binary.BigEndian.Uint32(plain)) > uint64(len(plain)-4) {
			return e, deferred.ErrDamaged
		}
		n := 4 + binary.BigEndian.Uint32(plain)
		e.Head, e.Body = append([]byte(nil), plain[4:n]...), append([]byte(nil), plain[n:]...)
	}
	if r.cut != 0 {
		e.Last = deferred.LastAttempt{At: v.clock.here(r.cut), Error: deferred.LeaseExpired} // the functions have its length
	}
	return e, v.outcome(r, e)
}

// outcome decodes last error and result of the entry of a row.
func (v *vault) outcome(r *row, e *deferred.Entry) error {
	for column, value := range map[string][]byte{columnLast: r.last, columnResult: r.result} {
		if len(value) == 0 {
			continue
		}
		part, err := v.seal.OpenPart(column, r.id, value)
		switch {
		case err != nil:
			return err
		case column == columnResult:
			e.Result = part.Result
		default:
			if e.Last = part.Last; !e.Last.At.IsZero() {
				e.Last.At = v.clock.here(e.Last.At.UnixMicro())
			}
		}
	}
	return nil
}
