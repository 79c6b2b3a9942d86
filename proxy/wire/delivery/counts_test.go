package delivery

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/program/metric"
	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/rules/decide"
	"weir/proxy/wire"
)

// samples returns the metrics of a dispatcher.
func samples(t *testing.T, d *Dispatcher) map[string]float64 {
	set := metric.New()
	d.Register(set)
	var text bytes.Buffer
	set.Write(&text)
	return testkit.Samples(t, text.String())
}

// What alerts look at is there before it happens for the first time.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	c.starts(0)
	p := policy(t, "rules: [{id: orders, key: [ip], limit: {algorithm: fixed, limit: 1, window: 1}, defer: {}}, {id: "+
		"reads, key: [ip], limit: {algorithm: fixed, limit: 1, window: 1}}]\n")
	c.d.cfg.Policy = func() *decide.Policy { return p }
	got := samples(t, c.d)
	for _, rule := range []string{"orders", CallbackRule} {
		for _, name := range []string{"deferred_total", "deferred_deliveries_total"} {
			for _, outcome := range []string{"full", "unstored", "failed", "expired", "unknown"} {
				n, ok := got["ratelimiter_"+name+metric.Labels("rule", rule, "outcome", outcome)]
				if known := (name == "deferred_total") == (outcome == "full" || outcome == "unstored"); n != 0 || ok != known {
					t.Errorf("%s of %s, %s: %v, %v", name, rule, outcome, n, ok)
				}
			}
		}
		if _, ok := got["ratelimiter_deferred_deliveries_total"+metric.Labels("rule", "reads", "outcome", "failed")]; ok {
			t.Error("there is one of a rule without defer")
		}
	}
}

// A lossy queue has given requests up by itself.
type lossy struct {
	oneEntry
	lost deferred.GivenUpCounts

	mu    sync.Mutex
	looks int // for what is unknown
	held  deferred.EntryCount
}

func (q *lossy) List(context.Context, deferred.Query) (page deferred.Page, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looks++
	return page, nil
}

func (q *lossy) Stats() deferred.Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	orders := deferred.RuleStats{Rule: "orders"}
	orders.States[deferred.Unknown] = q.held
	return deferred.Stats{Rules: []deferred.RuleStats{orders}, GivenUp: q.lost}
}

// lossyDispatcher has such a queue.
func lossyDispatcher(t *testing.T, q *lossy) *Dispatcher {
	q.claims = 1
	p := policy(t, "rules: []\n")
	return testkit.Must(New(Config{Open: func() (deferred.Queue, error) { return q, nil }, Rate: 1,
		Policy: func() *decide.Policy { return p }, Post: new(CallbackSender)}))(t)
}

// Requests that the queue gave up count as those that a delivery has settled.
func TestGivenUpCount(t *testing.T) {
	t.Parallel()
	d := lossyDispatcher(t,
		&lossy{lost: deferred.GivenUpCounts{{Rule: "orders", To: deferred.Unknown}: 2, {Rule: "orders",
			To: deferred.Failed}: 1}})
	d.counts.add(d.counts.deliveries, event{"orders", "unknown"})
	got := samples(t, d)
	for outcome, want := range map[string]float64{"unknown": 3, "failed": 1} {
		if n := got["ratelimiter_deferred_deliveries_total"+metric.Labels("rule", "orders", "outcome", outcome)]; n != want {
			t.Errorf("%v are %s, want %v", n, outcome, want)
		}
	}
}

// What is unknown is looked through when it has changed, and else seldom: it may be a hundred
// thousand entries.
func TestCatchUpLooksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := new(lossy)
		d := lossyDispatcher(t, q)
		d.Start(func(*wire.Delivery) {})
		looks := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.looks != want {
				t.Errorf("%d looks, want %d", q.looks, want)
			}
		}
		looks(time.Second, 1)
		looks(5*catchUpEvery, 1)
		q.mu.Lock()
		q.held = deferred.EntryCount{Entries: 1, Bytes: 500}
		q.mu.Unlock()
		looks(catchUpEvery, 2)
		looks((catchUpAnyway-1)*catchUpEvery, 2)
		looks(catchUpEvery, 3)
		d.closes(t)
	})
}
