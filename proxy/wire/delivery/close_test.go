package delivery

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/file"
	"weir/proxy/rules/decide"
	"weir/proxy/wire"
)

// dispatcher returns one with a queue, and what opens it again.
func dispatcher(t *testing.T) (d *Dispatcher, open func() (deferred.Queue, error)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue")
	open = func() (deferred.Queue, error) {
		return file.Open(time.Now(),
			file.Config{Path: path, Limits: deferred.Limits{Entries: 10_000, Bytes: 1 << 30, Share: 1, DeadKeep: time.Hour}})
	}
	p := policy(t, "rules: []\n")
	d = testkit.Must(New(Config{Open: open, Rate: 1000, Policy: func() *decide.Policy { return p },
		Log: slog.New(slog.DiscardHandler)}))(t)
	return d, open
}

// stock puts an order into the queue that is due.
func (d *Dispatcher) stock(t *testing.T, rule, line string) deferred.ID {
	t.Helper()
	return d.stockAs(t, "POST", rule, line)
}

func (d *Dispatcher) stockAs(t *testing.T, method, rule, line string) deferred.ID {
	t.Helper()
	return d.stockFrom(t, netip.MustParseAddr("10.0.0.1"),
		deferred.Entry{Rule: rule, LineKey: line, Head: []byte(method + " / HTTP/1.1\r\nHost: x\r\n")})
}

// stockFrom stores a request of a client.
func (d *Dispatcher) stockFrom(t *testing.T, client netip.Addr, e deferred.Entry) deferred.ID {
	t.Helper()
	e.Remote = netip.AddrPortFrom(client, 80)
	return put(t, d.opened(), e, d.ring)
}

// put stores an entry that is due and lasts an hour, with an id of its own unless it has one, and then
// calls stored.
func put(t *testing.T, q deferred.Queue, e deferred.Entry, stored func()) deferred.ID {
	t.Helper()
	e.Parallel, e.Accepted, e.Due, e.Expires = 1, time.Now(), time.Now(), time.Now().Add(time.Hour)
	if e.ID == (deferred.ID{}) {
		_, _ = rand.Read(e.ID[:]) // never fails
	}
	ends := make(chan deferred.PutResult, 1)
	q.Put(time.Now(), &deferred.PutRequest{Entry: e, Done: func(s deferred.PutResult) { ends <- s; stored() }})
	if s := testkit.Receive(t, ends, "the end of a put"); s.Outcome != deferred.Accepted {
		t.Fatalf("put: %s, %v", s.Outcome, s.Err)
	}
	return e.ID
}

// read reads an entry.
func read(t *testing.T, q deferred.Queue, id deferred.ID) *deferred.Entry {
	t.Helper()
	e, _, err := q.Read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// stops ends a dispatcher without waiting for what is under way.
func (d *Dispatcher) stops(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// What is claimed when the proxy ends is back in its line if nothing of it was sent; what was
// sent, and has no Idempotency-Key, is unknown.
func TestCloseGivesBack(t *testing.T) {
	t.Parallel()
	d, open := dispatcher(t)
	ids := []deferred.ID{d.stock(t, "orders", "a"), d.stock(t, "orders", "b")}
	begun := make(chan *wire.Delivery, len(ids))
	d.Start(func(w *wire.Delivery) { begun <- w })
	testkit.Receive(t, begun, "a delivery")
	sent := testkit.Receive(t, begun, "a second delivery")
	if !sent.SendState.Commit() {
		t.Fatal("it was withdrawn")
	}
	d.stops(t) // it does not answer in time
	q := testkit.Must(open())(t)
	defer q.Close()
	states := make(map[deferred.State]int)
	for _, id := range ids {
		states[read(t, q, id).State]++
	}
	if states[deferred.Waiting] != 1 || states[deferred.Unknown] != 1 {
		t.Errorf("the entries are %v, want one waiting and one unknown", states)
	}
}
