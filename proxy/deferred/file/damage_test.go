package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

const (
	pageBytes = 4096
	pageLeaf  = 2 // of a page's flags
)

// A queue with damaged pages goes on with what can be read. The file is kept, what is lost is
// lost with its page, and what is read is what was put.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			path, entries := filled(t, 300)
			data := testkit.Must(os.ReadFile(path))(t)
			n := 0
			for range 1 + rng.IntN(4) {
				p := data[(2+rng.IntN(len(data)/pageBytes-2))*pageBytes:][:pageBytes]
				if binary.LittleEndian.Uint16(p[8:]) != pageLeaf || bytes.Contains(p, []byte("requests")) {
					continue // branches and the list of buckets are TestDamagedRoot's
				}
				n++
				for i := range p {
					p[i] = byte(rng.Uint32())
				}
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			q := opened(t, Config{Path: path})
			found := readable(t, q, entries)
			if len(entries)-found > 40*n {
				t.Errorf("%d of %d can be read with %d damaged pages", found, len(entries), n)
			}
			deferredtest.PutAccepted(t, q, order("new", nil))
		})
	}
}

// filled returns a closed queue with n entries.
func filled(t *testing.T, n int) (path string, entries []deferred.Entry) {
	path, entries = queuePath(t), orders(n)
	q := opened(t, Config{Path: path})
	deferredtest.PutAccepted(t, q, entries...)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	return path, entries
}

// readable counts the entries that can be read and are what they were.
func readable(t *testing.T, q *Queue, entries []deferred.Entry) (n int) {
	t.Helper()
	for _, e := range entries {
		got, _, err := q.Read(t.Context(), e.ID)
		if err != nil {
			continue
		}
		if n++; !bytes.Equal(got.Body, e.Body) || got.LineKey != e.LineKey || got.Scope != e.Scope {
			t.Errorf("%s is read as another", e.ID)
		}
	}
	return n
}

// damage overwrites the leaf pages that the function wants, and returns how many.
func damage(t *testing.T, path string, wants func(page []byte) bool) (n int) {
	t.Helper()
	data := testkit.Must(os.ReadFile(path))(t)
	for at := 2 * pageBytes; at < len(data); at += pageBytes {
		if p := data[at:][:pageBytes]; binary.LittleEndian.Uint16(p[8:]) == pageLeaf && wants(p) {
			clear(p)
			n++
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// When the rows of entries are lost, their requests tell what is to be delivered: those with a key
// wait, the others may have been sent.
func TestLostRows(t *testing.T) {
	t.Parallel()
	path, entries := filled(t, 40)
	// Rows have no body, so a page with a line and without the body is one of rows.
	damaged := damage(t, path, func(p []byte) bool {
		return bytes.Contains(p, []byte("shop 7")) && !bytes.Contains(p, []byte("order 7"))
	})
	if damaged == 0 {
		t.Fatal("there is no page of rows")
	}
	var log testkit.Log
	q := opened(t, Config{Path: path, Log: log.Logger()})
	for i, e := range entries {
		got, _, err := q.Read(t.Context(), e.ID)
		if err != nil || !bytes.Equal(got.Body, e.Body) {
			t.Fatalf("order %d: %v", i, err)
		}
		if got.State != deferred.Waiting && (e.Keyed() || got.State != deferred.Unknown) {
			t.Errorf("order %d is %s", i, got.State)
		}
	}
	if log.Count("Queue was damaged") != 1 {
		t.Errorf("logged %s", &log)
	}
	if kept, _ := filepath.Glob(path + ".damaged-*"); len(kept) != 1 {
		t.Errorf("kept are %v", kept)
	}
}

// When a request is lost its entry becomes a dead letter that says so, and the others are
// delivered.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	path, entries := filled(t, 40)
	if damage(t, path, func(p []byte) bool { return bytes.Contains(p, []byte("order 7")) }) == 0 {
		t.Fatal("there is no page of requests")
	}
	q := opened(t, Config{Path: path})
	claimed, _, err := q.Claim(t.Context(), time.Now(), 100)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, e := range entries {
		if got, _, err := q.Read(t.Context(), e.ID); err == nil && got.State == deferred.Failed && got.Last.Error != "" {
			failed++
		}
	}
	if failed == 0 || len(claimed) == 0 || len(claimed)+failed != len(entries) {
		t.Errorf("%d are claimed, %d failed, of %d", len(claimed), failed, len(entries))
	}
}

// A value that has changed within a page that can be read is found when its turn comes.
func TestChangedValue(t *testing.T) {
	t.Parallel()
	path, entries := filled(t, 3)
	data := testkit.Must(os.ReadFile(path))(t)
	data = bytes.ReplaceAll(data, []byte("order 1"), []byte("order X"))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	q := opened(t, Config{Path: path})
	deferredtest.RequireClaims(t, q, time.Now(), 2)
	if e, _, err := q.Read(t.Context(), entries[1].ID); err != nil || e.Body != nil || e.Last.Error == "" {
		t.Errorf("what has changed is read as %+v, %v", e, err)
	}
	if page, err := q.List(t.Context(), deferred.Query{State: deferred.Failed, Limit: 9}); err != nil ||
		len(page.Entries) != 1 || page.Entries[0].ID != entries[1].ID {
		t.Errorf("%d have failed, %v", len(page.Entries), err)
	}
	if given := q.Stats().GivenUp; given[deferred.GivenUpLabels{Rule: "orders", To: deferred.Failed}] != 1 {
		t.Errorf("given up: %v", given)
	}
}

// A file whose tree cannot be read is kept, and the queue begins anew with what is found in its
// pages.
func TestDamagedRoot(t *testing.T) {
	t.Parallel()
	found := map[string]int{"both metas": 300, "all branches": 300, "cut in two": 1}
	for name, spoil := range map[string]func(data []byte) []byte{
		"no queue":     func([]byte) []byte { return []byte("this is a text\n") },
		"both metas":   func(data []byte) []byte { clear(data[:2*pageBytes]); return data },
		"all pages":    func(data []byte) []byte { clear(data[2*pageBytes:]); return data },
		"cut short":    func(data []byte) []byte { return data[:3*pageBytes] },
		"cut in two":   func(data []byte) []byte { return data[:20*pageBytes] },
		"all branches": branches,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, entries := filled(t, 300)
			data := testkit.Must(os.ReadFile(path))(t)
			spoilt := spoil(bytes.Clone(data))
			if err := os.WriteFile(path, spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
			q := opened(t, Config{Path: path})
			n := readable(t, q, entries)
			if n < found[name] {
				t.Errorf("%d of %d are found", n, len(entries))
			}
			if given := q.Stats().GivenUp[deferred.GivenUpLabels{Rule: "orders", To: deferred.Unknown}]; given != uint64(n) {
				t.Errorf("%d are found and %d given up", n, given)
			}
			if claimed, _, err := q.Claim(t.Context(), time.Now(), 10); err != nil || len(claimed) > 0 {
				t.Errorf("%d are claimed that may have been delivered, %v", len(claimed), err)
			}
			deferredtest.PutAccepted(t, q, order("new", nil))
			kept, err := os.ReadFile(path + ".damaged-1")
			if err != nil || !bytes.Equal(kept, spoilt) {
				t.Errorf("the file is not kept as it was: %v", err)
			}
		})
	}
}

// branches clears all pages that are branches.
func branches(data []byte) []byte {
	for at := 2 * pageBytes; at < len(data); at += pageBytes {
		if binary.LittleEndian.Uint16(data[at+8:]) == 1 {
			clear(data[at:][:pageBytes])
		}
	}
	return data
}

// A file of which most is free is made smaller at the start.
func TestCompaction(t *testing.T) {
	t.Parallel()
	path := queuePath(t)
	q := opened(t, Config{Path: path})
	for range 24 {
		deferredtest.PutAccepted(t, q, order("shop", make([]byte, 1<<20)))
	}
	if n, err := q.Edit(t.Context(), time.Now(), deferred.Edit{Action: deferred.Cancel, Rule: "orders",
		State: deferred.Waiting}); err != nil || n != 24 {
		t.Fatal(n, err)
	}
	kept := order("kept", []byte("kept"))
	deferredtest.PutAccepted(t, q, kept)
	if n, err := q.Edit(t.Context(), time.Now(), deferred.Edit{Action: deferred.Drop, Rule: "orders",
		State: deferred.Cancelled}); err != nil || n != 24 {
		t.Fatal(n, err)
	}
	_ = q.Close()
	q = opened(t, Config{Path: path})
	var info unix.Stat_t // its size has room that is not on the disk
	if err := unix.Stat(path, &info); err != nil || info.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes are left, %v", info.Blocks*512, err)
	}
	if got, _, err := q.Read(t.Context(), kept.ID); err != nil || !bytes.Equal(got.Body, kept.Body) {
		t.Errorf("what is kept: %v", err)
	}
}

// Bytes that are no page are read as one without harm.
func FuzzElements(f *testing.F) {
	page := make([]byte, 64)
	binary.NativeEndian.PutUint16(page[10:], 1)
	binary.NativeEndian.PutUint32(page[20:], 16)
	binary.NativeEndian.PutUint32(page[24:], 8)
	binary.NativeEndian.PutUint32(page[28:], 3)
	f.Add(page)
	f.Fuzz(func(t *testing.T, page []byte) {
		if len(page) < pageHead {
			return
		}
		eachElement(page, func(key, value []byte) {
			if len(key) != 8 || len(value) > len(page) {
				t.Errorf("a key of %d and a value of %d bytes in %d", len(key), len(value), len(page))
			}
		})
	})
}

// A row is read as it was written, and what cannot be written is not read.
func FuzzRow(f *testing.F) {
	for _, e := range orders(2) {
		e.State, e.Result = deferred.Failed, &deferred.Result{Status: 503, Head: []byte("head"), Body: []byte("body"),
			Bytes: 9, Truncated: true}
		f.Add(newRow(&e).append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRow(data)
		if err != nil {
			return
		}
		if again := r.append(nil); !bytes.Equal(again, data) {
			t.Errorf("%x is written as %x", data, again)
		}
	})
}

// A file of another version is left as it is, and its version is told.
func TestVersion(t *testing.T) {
	t.Parallel()
	path, _ := filled(t, 3)
	db := testkit.Must(bbolt.Open(path, fileMode, nil))(t)
	err := db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketAbout).Put(aboutVersion, []byte{2}) })
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	before := testkit.Must(os.ReadFile(path))(t)
	if _, err := Open(time.Now(), Config{Path: path}); err == nil ||
		!strings.Contains(err.Error(), "it is of version 02, this program knows 1") {
		t.Errorf("opened: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("it has changed: %v", err)
	}
}

// An entry that has expired counts as waiting until it is settled, also if it cannot be read then.
func TestExpiredUnreadable(t *testing.T) {
	t.Parallel()
	q := opened(t, Config{Path: queuePath(t)})
	e := order("shop", nil)
	deferredtest.PutAccepted(t, q, e)
	claimed := deferredtest.RequireClaims(t, q, e.Expires, 1)
	if err := q.do(t.Context(), func(t *turn) { must(t.bucket(bucketOpen).Put(seqKey(1), []byte("x"))) }); err != nil {
		t.Fatal(err)
	}
	if err := deferredtest.Settle(t, q, claimed[0], deferred.Expired); !errors.Is(err, deferred.ErrLease) {
		t.Errorf("settled: %v", err)
	}
	s := q.Stats()
	if open, _ := s.Totals(); open != 0 || s.Bytes != 0 ||
		s.Rules[0].States != [deferred.StateCount]deferred.EntryCount{} ||
		s.Unreadable != 1 {
		t.Errorf("%+v is counted", s)
	}
}
