package postgres

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
)

// newVault returns one that encrypts.
func newVault(t testing.TB) *vault {
	t.Helper()
	s := testkit.Must(deferred.NewSealer(bytes.Repeat([]byte{7}, deferred.SealKeyBytes)))(t)
	return &vault{seal: s}
}

// sample is an entry with something in each field, and its row.
func sample(v *vault) (*deferred.Entry, *row) {
	at := time.Date(2026, 11, 23, 6, 0, 0, 1000, time.UTC)
	e := &deferred.Entry{ID: deferred.ID{1}, Rule: "orders", LineKey: "shop", Parallel: 1, Accepted: at,
		Due: at.Add(time.Second), Expires: at.Add(time.Hour),
		Remote: netip.MustParseAddrPort("10.0.0.1:80"), TLS: true, Scope: deferred.SHA256{2}, Fingerprint: deferred.SHA256{3},
		Head: []byte("POST / HTTP/1.1\r\n"), Body: []byte("secret")}
	r := &row{id: e.ID, accepted: at.UnixMicro(), due: e.Due.UnixMicro(), expires: e.Expires.UnixMicro(),
		about: v.about(e), request: v.request(e)}
	e.State, e.Attempts = deferred.Failed, 2
	e.Last = deferred.LastAttempt{At: at, Status: 500, Error: "no"}
	e.Result = &deferred.Result{Status: 500, Head: []byte("h"), Body: []byte("b"), Bytes: 9, Truncated: true}
	r.state, r.tries, r.last, r.result = int64(e.State), 2, v.last(e.ID, e.Last), v.result(e.ID, e.Result)
	return e, r
}

// What is stored of an entry is what is read, and says nothing without the key.
func TestEntry(t *testing.T) {
	v := newVault(t)
	e, r := sample(v)
	got, err := v.entry(r)
	if err != nil || !bytes.Equal(deferred.AppendEntry(nil, got), deferred.AppendEntry(nil, e)) {
		t.Errorf("read %+v, %v", got, err)
	}
	if all := string(r.about) + string(r.request) + string(r.last) + string(r.result); strings.Contains(all,
		"secret") || strings.Contains(all, "shop") {
		t.Error("it is stored in the clear")
	}
	r.cut = e.Accepted.UnixMicro()
	r.last = nil
	expired := deferred.LastAttempt{At: e.Accepted, Error: deferred.LeaseExpired}
	if got, err = v.entry(r); err != nil || got.Last != expired ||
		len(deferred.LeaseExpired) != 24 {
		t.Errorf("cut off: %+v, %v", got.Last, err)
	}
	for name, spoil := range map[string]func(r *row){
		"another ID":                 func(r *row) { r.id = deferred.ID{9} },
		"a request for another part": func(r *row) { r.request = r.about },
		"no rest":                    func(r *row) { r.about = nil },
		"a damaged result":           func(r *row) { r.result[20] ^= 1 },
	} {
		_, r := sample(v)
		spoil(r)
		got, err := v.entry(r)
		if err == nil {
			t.Errorf("with %s it is read", name)
		}
		if known := name == "a request for another part" || name == "a damaged result"; known &&
			(got == nil || got.Rule != e.Rule) {
			t.Errorf("with %s its rule is unknown: %+v", name, got)
		}
	}
}

// Whatever is in the columns of an entry, reading it ends with an entry or an error.
func FuzzEntry(f *testing.F) {
	v := &vault{}
	_, r := sample(v)
	f.Add(r.about, r.request, r.last, r.result)
	f.Add(r.about, binary.BigEndian.AppendUint32(nil, 1<<31), []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, about, request, last, result []byte) {
		e, err := v.entry(&row{id: deferred.ID{1}, state: 3, about: about, request: request, last: last, result: result})
		if err == nil && e.ID != (deferred.ID{1}) {
			t.Errorf("read another entry: %s", e.ID)
		}
	})
}
