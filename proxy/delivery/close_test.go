package delivery

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/decide"
	"weir/proxy/deferred"
	"weir/proxy/deferred/file"
	"weir/proxy/wire"
)

// What is claimed when the proxy ends is back in its line if nothing of it was sent; what was
// sent, and has no Idempotency-Key, is unknown.
func TestCloseGivesBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue")
	open := func() (deferred.Queue, error) {
		return file.Open(time.Now(), file.Config{Path: path, Limits: deferred.Limits{Entries: 100, Bytes: 1 << 20, Share: 1, DeadKeep: time.Hour}})
	}
	p := policy(t, "rules: []\n")
	d, err := New(Config{Open: open, Rate: 1000, Policy: func() *decide.Policy { return p }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var ids [2]deferred.ID
	for i := range ids {
		e := deferred.Entry{Rule: "orders", Line: string(rune('a' + i)), Parallel: 1, Accepted: time.Now(), Due: time.Now(), Expires: time.Now().Add(time.Hour),
			Remote: netip.MustParseAddrPort("10.0.0.1:80"), Head: []byte("POST / HTTP/1.1\r\nHost: x\r\n")}
		_, _ = rand.Read(e.ID[:])
		ids[i] = e.ID
		stored := make(chan deferred.Stored, 1)
		d.opened().Put(time.Now(), &deferred.Put{Entry: e, Done: func(s deferred.Stored) { stored <- s }})
		if s := testkit.Receive(t, stored, "the end of a put"); s.Outcome != deferred.Accepted {
			t.Fatalf("put: %s, %v", s.Outcome, s.Err)
		}
	}
	begun := make(chan *wire.Delivery, len(ids))
	d.Start(func(w *wire.Delivery) { begun <- w })
	testkit.Receive(t, begun, "a delivery")
	sent := testkit.Receive(t, begun, "a second delivery")
	if !sent.Fate.GoesOn() {
		t.Fatal("it was withdrawn")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it does not answer in time
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
	q, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	states := make(map[deferred.State]int)
	for _, id := range ids {
		e, _, err := q.Read(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		states[e.State]++
	}
	if states[deferred.Waiting] != 1 || states[deferred.Unknown] != 1 {
		t.Errorf("the entries are %v, want one waiting and one unknown", states)
	}
}
