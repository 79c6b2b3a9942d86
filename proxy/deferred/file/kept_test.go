package file

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// The final entries of a file that an earlier version has written count in the shares of their
// clients. What that version has deleted or added after this one does no harm.
func TestKeptOfEarlierVersion(t *testing.T) {
	t.Parallel()
	path := queuePath(t)
	limits := deferred.Limits{Entries: 100, Bytes: 100_000, Share: 0.1, DeadKeep: time.Hour}
	open := func() *Queue {
		t.Helper()
		return testkit.Must(Open(time.Now(), Config{Path: path, Limits: limits}))(t)
	}
	change := func(change func(tx *bbolt.Tx) error) {
		t.Helper()
		db := testkit.Must(bbolt.Open(path, fileMode, &bbolt.Options{NoFreelistSync: true}))(t)
		if err := errors.Join(db.Update(change), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	q := open()
	fail := func() deferred.ID {
		t.Helper()
		e := order("shop", make([]byte, 2000))
		deferredtest.PutAccepted(t, q, e)
		c := deferredtest.RequireClaims(t, q, time.Now().Add(time.Second), 1)
		if err := deferredtest.Settle(t, q, c[0], deferred.Failed); err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	there := func(id deferred.ID, want bool) {
		t.Helper()
		if _, _, err := q.Read(t.Context(), id); (err == nil) != want {
			t.Errorf("an entry is kept: %t, want %t (%v)", err == nil, want, err)
		}
	}
	first, second := fail(), fail()
	_ = q.Close()
	change(func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketKept) })
	q = open()
	third := fail()
	there(first, false)
	there(second, true)
	_ = q.Close()
	change(func(tx *bbolt.Tx) error { return tx.Bucket(bucketIDs).Delete(second[:]) })
	q = open()
	fourth := fail()
	there(third, true)
	there(fourth, true)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}
