package storetest

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store"
)

// Documents tests documents that may be written. There must be none yet.
func Documents(t *testing.T, d store.DocumentStore) {
	large := bytes.Repeat([]byte("1"), store.DocumentBytesMax)
	known := store.Document{}
	for i, step := range []struct {
		version int64
		body    []byte
		written bool
	}{{1, []byte("0"), false}, {0, []byte("10"), true}, {0, []byte("20"), false}, {1, large, true},
		{1, []byte("30"), false}, {2, []byte("{}"), true}} {
		doc, written, err := d.CompareAndSet("steps", step.version, step.body)
		if written {
			known = store.Document{Version: known.Version + 1, Body: bytes.Clone(step.body)}
		}
		if err != nil || written != step.written || doc.Version != known.Version || !bytes.Equal(doc.Body, known.Body) &&
			!written {
			t.Errorf("step %d: written %v as version %d, %v", i, written, doc.Version, err)
		}
		step.body[0] = 'X' // the caller's, not the store's
		if got := testkit.Must(d.Read("steps"))(t); got.Version != known.Version || !bytes.Equal(got.Body, known.Body) {
			t.Errorf("step %d: %d bytes of version %d are read", i, len(got.Body), got.Version)
		}
	}
	if _, written, err := d.CompareAndSet("steps", known.Version, append(large, '1')); written || err == nil {
		t.Errorf("beyond the bound: written %v, %v", written, err)
	}
	writers(t, d)
}

// writers expects that of many who write upon the same version one is first.
func writers(t *testing.T, d store.DocumentStore) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for added := 0; added < 20; {
				doc, err := d.Read("count")
				if err != nil {
					t.Error(err)
					return
				}
				n := 0
				fmt.Sscan(string(doc.Body), &n)
				_, written, err := d.CompareAndSet("count", doc.Version, fmt.Append(nil, n+1))
				if err != nil {
					t.Error(err)
					return
				}
				if written {
					added++
				}
			}
		})
	}
	all.Wait()
	if doc := testkit.Must(d.Read("count"))(t); string(doc.Body) != "160" || doc.Version != 160 {
		t.Errorf("the count is %s in version %d, want 160", doc.Body, doc.Version)
	}
}

// Leases tests leases that proxies share. Nobody may have one yet.
func Leases(t *testing.T, s store.Store) {
	lease := func(owner string, ttl time.Duration) bool { return testkit.Must(s.Lease("lease", owner, ttl))(t) }
	release := func(owner string) {
		if err := s.Release("lease", owner); err != nil {
			t.Error(err)
		}
	}
	if !lease("a", time.Hour) || lease("b", time.Hour) || !lease("a", time.Hour) {
		t.Error("two hold it, or its holder cannot renew it")
	}
	if release("b"); lease("b", time.Hour) {
		t.Error("b gave back what is a's")
	}
	if release("a"); !lease("b", 20*time.Millisecond) {
		t.Error("a did not give it back")
	}
	testkit.Eventually(t, "it has ended", func() bool { return lease("c", time.Hour) })
	var all sync.WaitGroup
	var holders atomic.Int64
	for i := range 16 {
		all.Go(func() {
			if held, err := s.Lease("other", fmt.Sprint(i), time.Hour); err != nil {
				t.Error(err)
			} else if held {
				holders.Add(1)
			}
		})
	}
	all.Wait()
	if holders.Load() != 1 {
		t.Errorf("of 16 who ask at once %d hold the lease", holders.Load())
	}
}
