package file

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/deferred"
)

// roomy are limits that nothing reaches.
var roomy = deferred.Limits{Entries: 1 << 20, Bytes: 8 << 30, Share: 1, DeadKeep: time.Hour}

// TestMain makes the test binary a program that uses a queue, in a process of its own.
func TestMain(m *testing.M) {
	testkit.Main(m, func() {
		programs := map[string]func(path string) error{"load": load, "trace": trace, "full": full}
		if err := programs[os.Args[1]](os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

// queuePath is where a test keeps its queue.
func queuePath(t *testing.T) string { return filepath.Join(t.TempDir(), "queue") }

// opened opens a queue until the test ends.
func opened(t *testing.T, cfg Config) *Queue {
	t.Helper()
	cfg.Limits = roomy
	q, err := Open(time.Now(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// order returns a new entry.
func order(line string, body []byte) deferred.Entry {
	now := time.Now().UTC().Truncate(time.Microsecond)
	e := deferred.Entry{
		Rule: "orders", Line: line, Parallel: 1, Accepted: now, Due: now, Expires: now.Add(time.Hour),
		Remote: netip.MustParseAddrPort("10.0.0.1:80"), Head: []byte("POST / HTTP/1.1\r\n\r\n"), Body: body,
	}
	_, _ = rand.Read(e.ID[:]) // never fails
	return e
}

// withKey gives an entry a scope of its own.
func withKey(e deferred.Entry) deferred.Entry {
	e.Scope = deferred.Hash(append(e.ID[:], e.ID[:]...))
	e.Fingerprint = deferred.Hash{1}
	return e
}

// put waits for what comes of a put.
func put(q *Queue, e deferred.Entry) deferred.Stored {
	stored := make(chan deferred.Stored, 1)
	q.Put(time.Now(), &deferred.Put{Entry: e, Done: func(s deferred.Stored) { stored <- s }})
	return <-stored
}

// putAll wants entries to be accepted.
func putAll(t *testing.T, q *Queue, entries ...deferred.Entry) {
	t.Helper()
	stored := make(chan deferred.Stored, len(entries))
	for _, e := range entries {
		q.Put(time.Now(), &deferred.Put{Entry: e, Done: func(s deferred.Stored) { stored <- s }})
	}
	for range entries {
		if s := testkit.Receive(t, stored, "the end of a put"); s.Outcome != deferred.Accepted {
			t.Fatalf("put: %s, %s, %v", s.Outcome, s.Bound, s.Err)
		}
	}
}

// orders returns n entries, each in a line of its own, half of them with a key.
func orders(n int) (entries []deferred.Entry) {
	for i := range n {
		e := order(fmt.Sprint("shop ", i), fmt.Appendf(nil, "order %d", i))
		if i%2 == 0 {
			e = withKey(e)
		}
		entries = append(entries, e)
	}
	return entries
}
