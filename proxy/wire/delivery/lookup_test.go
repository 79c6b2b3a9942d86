package delivery

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/http/exchange"
)

// A silent is a queue that answers no question before its caller gives up.
type silent struct {
	deferred.Queue
	asked chan struct{}
}

func (q *silent) Known(ctx context.Context, _ deferred.SHA256) (bool, error) {
	q.asked <- struct{}{}
	<-ctx.Done()
	return true, ctx.Err()
}

func (q *silent) Close() error { return nil }

// What the queue does not tell in time is not known, and the request is forwarded. One client has
// half of the places, and another one still finds some.
func TestLookUp(t *testing.T) {
	t.Parallel()
	q := &silent{asked: make(chan struct{}, lookUpsMax)}
	d := testkit.Must(New(Config{Open: func() (deferred.Queue, error) { return q, nil }, Rate: 1}))(t)
	orders := perKeyOne(t)
	results := make(chan bool, 2*lookUpsMax)
	look := func(addr string, key []byte) {
		d.LookUp(time.Now(), &exchange.DeferredRequest{Rule: orders, Client: netip.MustParseAddr(addr),
			Request: postRequest(),
			Options: deferred.Options{Key: key}}, func(known bool) { results <- known })
	}
	look("10.0.0.1", nil)
	if testkit.Receive(t, results, "the answer without a key") {
		t.Error("a request without a key is known")
	}
	look("10.0.0.1", []byte("k"))
	testkit.Receive(t, q.asked, "the question")
	if testkit.Receive(t, results, "the answer of a silent queue") {
		t.Error("what the queue has not told in time is known")
	}
	c, other := rateClient(1), rateClient(2)
	for i := range lookUpsMax / 2 {
		if !d.lookUps.begin(c) {
			t.Fatalf("request %d of a client is not looked up", i)
		}
	}
	if d.lookUps.begin(c) || d.lookUps.skips() != 1 {
		t.Errorf("one beyond is looked up, or %d are counted", d.lookUps.skips())
	}
	if !d.lookUps.begin(other) {
		t.Error("a request of another client is not looked up")
	}
	d.closes(t)
	look("10.0.0.3", []byte("k"))
	if testkit.Receive(t, results, "the answer after the end") || d.lookUps.held.Of(rateClient(3)) != 0 {
		t.Error("after the end a request is known, or stays counted")
	}
}
