package delivery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/callback"
)

// A client has a part of the queue for callbacks to a receiver, and what is beyond is counted;
// requests are settled all the same. A queue that is full of requests has room for callbacks.
func TestCallbackBounds(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	c.limit.Entries = 20 // a line may have two
	r := receives(t, c.pair)
	c.starts(201)
	pause := func(paused bool, rules ...string) {
		t.Helper()
		for _, rule := range rules {
			if err := c.d.opened().Pause(t.Context(), rule, paused); err != nil {
				t.Fatal(err)
			}
		}
		c.d.ring()
	}
	pause(true, "orders", "others", CallbackRule)
	client := netip.MustParseAddr("192.0.2.1")
	ids := []deferred.ID{c.stores("orders", r.URL, client), c.stores("orders", r.URL, client)}
	for range 18 {
		c.stores("others", "", netip.Addr{})
	}
	pause(false, "orders")
	for _, id := range ids {
		testkit.Eventually(t, "it is done", func() bool {
			s := c.tells(id)
			return s.State == "done" &&
				s.Callback.State == "waiting"
		})
	}
	pause(false, "others")
	testkit.Eventually(t, "there is room", func() bool { return c.d.waitingOf("others") == 0 })
	lost, other := c.stores("orders", r.URL, client), c.accepts(r.URL)
	testkit.Eventually(t, "they are done", func() bool {
		return c.tells(lost).State == "done" &&
			c.tells(other).State == "done"
	})
	if got := c.tells(lost).Callback; got.State != "" {
		t.Errorf("a third callback: %+v", got)
	}
	if got := c.tells(other).Callback; got.State != "waiting" {
		t.Errorf("a callback of another client: %+v", got)
	}
	var counted []string
	c.d.each(c.d.accepted)(func(labels string, n uint64) { counted = append(counted, fmt.Sprint(labels, " ", n)) })
	if got, want := strings.Join(counted, "\n"), `{rule="deferred callbacks",outcome="full"} 1`; !strings.Contains(got,
		want) {
		t.Errorf("counted\n%s\nwant %s", got, want)
	}
}

// Of one client with 40 requests to a path of a receiver that does not answer, no callback of
// another client to that receiver waits.
func TestCallbackBesideSlowPath(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	c.limit.Share = 1
	r := receives(t, c.pair)
	held, entered := make(chan struct{}), make(chan struct{}, 100)
	receive := r.Config.Handler
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			entered <- struct{}{}
			<-held
		}
		receive.ServeHTTP(w, q)
	})
	c.starts(201, r)
	defer close(held)
	slow := netip.MustParseAddr("2001:db8::1")
	for range 40 {
		c.stores("orders", r.URL+"/slow", slow)
		slow = slow.Next()
	}
	share := c.d.cfg.Hosts.Parallel() / 2
	for range share {
		testkit.Receive(t, entered, "a callback to the slow path")
	}
	for range 10 {
		id := c.accepts(r.URL)
		if got := testkit.Receive(t, r.got, "the callback of another client"); got.ID != id.String() {
			t.Errorf("it received %+v", got)
		}
	}
	if len(entered) > 0 {
		t.Errorf("%d more than %d callbacks of one client are in progress", len(entered), share)
	}
}

// A callback for which its receiver has no place waits without an attempt, and is sent when there is
// one.
func TestCallbackWaitsForPlace(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	r := receives(t, c.pair)
	c.starts(0, r)
	take := func(of func(line string)) {
		c.d.mu.Lock()
		defer c.d.mu.Unlock()
		for i := range c.d.cfg.Hosts.Parallel() {
			of(fmt.Sprintf("%s 192.0.2.%d", r.Listener.Addr(), i))
		}
	}
	take(func(line string) {
		if !c.d.calls.Acquire(line) {
			t.Errorf("%s has no place", line)
		}
	})
	e := &deferred.Entry{Rule: "orders", State: deferred.Done, Accepted: time.Now(), Callback: r.URL,
		Remote: netip.MustParseAddrPort("192.0.2.200:1")}
	c.d.announce(c.d.opened(), e)
	refused := event{CallbackRule, "refused"}
	testkit.Eventually(t, "it was given back", func() bool { return c.d.ended()[refused] > 0 })
	take(c.d.calls.Release)
	testkit.Receive(t, r.got, "the callback")
	testkit.Eventually(t, "it is settled", func() bool {
		e, _, err := c.d.opened().Read(t.Context(), callbackID(e))
		return err == nil && e.State == deferred.Done && e.Attempts == 1
	})
}

// One client with many requests to a path of a receiver that fails loses no callbacks of others,
// nor do many clients: as many callbacks wait as requests, and each line has at most as many as there is
// room left for others.
func TestCallbackBesideFailingPath(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	c.limit.Entries, c.limit.Share = 100, 0.5
	c.tries = 1_000_000
	r := &receiver{Server: httptest.NewUnstartedServer(nil)}
	defer r.Listener.Close()
	c.starts(0, r)
	if err := c.d.opened().Pause(t.Context(), CallbackRule, true); err != nil {
		t.Fatal(err)
	}
	url := "https://" + r.Listener.Addr().String()
	n := 0
	announced := func(client int, bytes int) deferred.PutResult {
		n++
		e := &deferred.Entry{Rule: "orders", Accepted: time.Now(), Callback: url,
			Remote: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(client)}), 1),
			Last:   deferred.LastAttempt{At: time.Now(), Error: strings.Repeat("x", bytes)}}
		e.ID[0], e.ID[1] = byte(n), byte(n>>8)
		return c.d.putNew(c.d.opened(), time.Now(), c.d.callbackOf(time.Now(), e))
	}
	fill := func(client, want int, bound deferred.ExceededBound) {
		t.Helper()
		for i := range want + 1 {
			s := announced(client, 0)
			if i < want && s.Outcome != deferred.Accepted || i == want && (s.Outcome != deferred.Full || s.Bound != bound) {
				t.Errorf("callback %d of client %d: %s, bound %s, %v", i, client, s.Outcome, s.Bound, s.Err)
			}
		}
	}
	fill(1, 50, deferred.BoundLine)
	fill(2, 25, deferred.BoundLine)
	if s := announced(3, int(c.limit.Bytes)); s.Outcome != deferred.Full || s.Bound != deferred.BoundBytes {
		t.Errorf("a callback larger than the queue: %s, bound %s", s.Outcome, s.Bound)
	}
	fill(3, 13, deferred.BoundLine)
	for client := 4; n < 200; client++ {
		if s := announced(client, 0); s.Outcome == deferred.Full && s.Bound == deferred.BoundEntries {
			break
		}
	}
	if got := c.d.waitingOf(CallbackRule); got != 100 {
		t.Errorf("%d callbacks wait, want 100", got)
	}
	if receiver, _ := callback.ParseReceiverKey(c.d.callbackOf(time.Now(),
		&deferred.Entry{Callback: url}).Entry.LineKey); receiver != r.Listener.Addr().String() {
		t.Errorf("the receiver is %s", receiver)
	}
}
