package delivery

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/callback"
	"weir/proxy/deferred/file"
	"weir/proxy/rules/decide"
	"weir/proxy/wire"
)

// A receiver is called back.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int // of the next answers; then 204
	got      chan heard
	t        *testing.T
}

// A heard is a callback that arrived.
type heard struct {
	shown
	message string // webhook-id
}

// secret signs the callbacks of the tests.
var secret = callback.Secret("a secret of at least 24 bytes")

func receives(t *testing.T, pair tls.Certificate, statuses ...int) *receiver {
	r := &receiver{statuses: statuses, got: make(chan heard, 100), t: t}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.receive))
	r.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) receive(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	at, numeric := strconv.ParseInt(q.Header.Get(callback.TimestampField), 10, 64)
	state := heard{message: q.Header.Get(callback.IDField)}
	if err != nil || numeric != nil || json.Unmarshal(body, &state.shown) != nil ||
		q.Header.Get(callback.SignatureField) != secret.Sign(state.message, time.Unix(at, 0), body) ||
		time.Since(time.Unix(at, 0)) > time.Minute {
		r.t.Errorf("it got %v %s", q.Header, body)
	}
	r.mu.Lock()
	status := 204
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	r.mu.Unlock()
	r.got <- state
	w.WriteHeader(status)
}

// A calling is a dispatcher in front of receivers, which can be started again.
type calling struct {
	t     *testing.T
	pair  tls.Certificate
	path  string
	tries int // attempts of a callback; 0: as usual
	limit deferred.Limits
	log   testkit.LogRecords
	d     *Dispatcher
}

func newCalling(t *testing.T) *calling {
	return &calling{t: t, pair: testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1"),
		path:  filepath.Join(t.TempDir(), "queue"),
		limit: deferred.Limits{Entries: 100, Bytes: 1 << 20, Share: 0.1, DeadKeep: time.Hour}}
}

// starts starts the dispatcher; targets answer at once with a status.
func (c *calling) starts(status int, receivers ...*receiver) {
	c.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(c.pair.Leaf)
	list := []string{"nobody.test"}
	for _, r := range receivers {
		list = append(list, r.Listener.Addr().String())
	}
	hosts, err := callback.ParseHosts(strings.Join(list, ","))
	if err != nil {
		c.t.Fatal(err)
	}
	quick := deferred.ForCallbacks()
	quick.Backoff = deferred.Backoff{First: 0.01, Factor: 1, Max: 0.01}
	quick.Attempts = cmp.Or(c.tries, quick.Attempts)
	p := policy(c.t, "rules: []\n")
	c.d, err = New(Config{Rate: 1000, Policy: func() *decide.Policy { return p }, Log: c.log.Logger("Deferred"),
		DeadKeep: time.Hour, Hosts: hosts, callbacks: &quick, Limits: c.limit,
		Post: NewCallbackSender(CallbackConfig{Hosts: hosts, Secret: secret, Roots: roots}),
		Open: func() (deferred.Queue, error) {
			return file.Open(time.Now(), file.Config{Path: c.path, Limits: c.limit})
		}})
	if err != nil {
		c.t.Fatal(err)
	}
	d := c.d
	d.Start(func(w *wire.Delivery) {
		if w.SendState.Commit() && status > 0 {
			w.Done(time.Now(), &wire.DeliveryResult{Sent: true,
				Result: deferred.Result{Status: status, Head: []byte("X-A: b\r\n"), Bytes: 2, Body: []byte("ok")}})
		}
	})
	c.t.Cleanup(func() { d.stops(c.t) })
}

// accepts stores an order whose client wants to be told at url.
func (c *calling) accepts(url string) deferred.ID {
	c.t.Helper()
	return c.stores("orders", url, netip.Addr{})
}

// stores stores a request of a client, or without one of a client of its own.
func (c *calling) stores(rule, url string, client netip.Addr) deferred.ID {
	c.t.Helper()
	e := deferred.Entry{Rule: rule, Callback: url, Head: []byte("POST / HTTP/1.1\r\nHost: x\r\n")}
	_, _ = rand.Read(e.ID[:]) // never fails
	if !client.IsValid() {
		client = netip.AddrFrom16(e.ID)
	}
	e.Remote = netip.AddrPortFrom(client, 80)
	return put(c.t, c.d.opened(), e, c.d.ring)
}

// tells is what the status endpoint says of a request.
func (c *calling) tells(id deferred.ID) (s struct {
	State    string
	Callback shownCallback
}) {
	c.t.Helper()
	e, position, err := c.d.opened().Read(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.d.status(c.t.Context(), w, e, position)
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		c.t.Fatalf("%s: %v", w.Body, err)
	}
	return s
}

// becomes waits for a state of the callback about a request.
func (c *calling) becomes(id deferred.ID, want shownCallback) {
	c.t.Helper()
	testkit.Eventually(c.t, fmt.Sprintf("the callback is %+v", want), func() bool { return c.tells(id).Callback == want })
}

// A callback tells the final state once its receiver takes it; to clients it is no request.
func TestCallback(t *testing.T) {
	t.Parallel()
	for status, state := range map[int]string{201: "done", 400: "failed"} {
		c := newCalling(t)
		r := receives(t, c.pair, 503, 302)
		c.starts(status, r)
		id := c.accepts(r.URL + "/paid")
		messages := make(map[string]bool)
		for range 3 {
			got := testkit.Receive(t, r.got, "a callback")
			messages[got.message] = true
			if got.ID != id.String() || got.State != state || got.Attempts != 1 || got.Last.Status != status ||
				got.Result.Bytes != 2 ||
				got.Rule != "orders" || got.Result.Fields[0] != [2]string{"X-A", "b"} {
				t.Errorf("it received %+v", got)
			}
		}
		if len(messages) != 1 {
			t.Errorf("three attempts have the ids %v", messages)
		}
		c.becomes(id, shownCallback{URL: r.URL + "/paid", State: "done", Attempts: 3, Status: 204})
		if got := c.tells(id); got.State != state {
			t.Errorf("the request is %s", got.State)
		}
		e := read(t, c.d.opened(), id)
		w := httptest.NewRecorder()
		q := httptest.NewRequest("GET", "/deferred/"+callbackID(e).String(), nil)
		q.SetPathValue("id", callbackID(e).String())
		if c.d.asked(c.d.status)(w, q); w.Code != 404 {
			t.Errorf("the callback itself is answered %d %s", w.Code, w.Body)
		}
	}
}

// When an operator retries a request, its new outcome is sent as another message.
func TestCallbackAfterRetry(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	r := receives(t, c.pair)
	c.starts(400, r)
	id := c.accepts(r.URL)
	first := testkit.Receive(t, r.got, "a callback")
	testkit.Eventually(t, "it can be retried", func() bool {
		_, err := c.d.opened().Edit(t.Context(), time.Now(), deferred.Edit{Action: deferred.Retry, ID: id})
		c.d.ring()
		return err == nil
	})
	second := testkit.Receive(t, r.got, "a second callback")
	if first.ID != id.String() || second.ID != id.String() || first.message == second.message ||
		first.message == id.String() {
		t.Errorf("the receiver got %+v and %+v", first, second)
	}
}

// Whatever a receiver answers, why an attempt has failed is text.
func TestCallbackReasonIsText(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	l := testkit.Must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{c.pair}}))(t)
	defer l.Close()
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_, _ = conn.Read(make([]byte, 4096))
			fmt.Fprintf(conn, "%s\r\n\r\n", strings.Repeat("ü", reasonBytesMax))
			conn.Close()
		}
	}()
	c.starts(201, &receiver{Server: &httptest.Server{Listener: l}})
	id := c.accepts("https://" + l.Addr().String())
	testkit.Eventually(t, "it has failed", func() bool { return c.tells(id).Callback.State == "failed" })
	e := read(t, c.d.opened(), callbackID(read(t, c.d.opened(), id)))
	if !utf8.ValidString(e.Last.Error) || !strings.Contains(e.Last.Error, "üüü") {
		t.Errorf("failed because of %q", e.Last.Error)
	}
}

// A receiver that fails five times, or says that it is gone, is given up.
func TestCallbackGivenUp(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		statuses []int
		attempts int
	}{{[]int{500, 404, 301, 429, 500}, 5}, {[]int{500, 410}, 2}} {
		c := newCalling(t)
		r := receives(t, c.pair, f.statuses...)
		c.starts(201, r)
		id := c.accepts(r.URL)
		c.becomes(id, shownCallback{URL: r.URL, State: "failed", Attempts: f.attempts, Status: f.statuses[f.attempts-1]})
		lines := strings.Join(c.log.Taken(), "\n")
		if want := fmt.Sprintf("Gave up a callback host=%s id=%s attempts=%d last=%d", r.Listener.Addr(), id, f.attempts,
			f.statuses[f.attempts-1]); !strings.Contains(lines, want) {
			t.Errorf("logged %s, want %s", lines, want)
		}
	}
}

// What was stored is sent by the proxy that opens the queue next: after the request was done, and
// after a crash between its answer and its settlement.
func TestCallbackSurvives(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	c.tries = 1_000_000 // attempts go on until the proxy ends
	r := receives(t, c.pair)
	c.starts(201) // lists nobody: attempts fail
	done := c.accepts(r.URL)
	testkit.Eventually(t, "it is done and an attempt was made",
		func() bool { s := c.tells(done); return s.State == "done" && s.Callback.Attempts > 0 })
	c.d.stops(t)

	c.starts(0, r) // the target does not answer
	if got := testkit.Receive(t, r.got, "a callback"); got.ID != done.String() || got.State != "done" {
		t.Errorf("it received %+v", got)
	}
	// else it is sent again
	testkit.Eventually(t, "the callback is settled", func() bool { return c.tells(done).Callback.State == "done" })
	unknown := c.accepts(r.URL)
	testkit.Eventually(t, "it is being delivered", func() bool { return c.tells(unknown).State == "delivering" })
	c.d.stops(t)

	c.starts(201, r)
	if got := testkit.Receive(t, r.got, "a callback"); got.ID != unknown.String() || got.State != "unknown" {
		t.Errorf("it received %+v", got)
	}
	c.becomes(unknown, shownCallback{URL: r.URL, State: "done", Attempts: 1, Status: 204})
	if err := c.d.announceUnknown(time.Now().Add(-time.Hour)); err != nil || len(r.got) > 0 {
		t.Errorf("%v, and %d callbacks are sent again", err, len(r.got))
	}
}

// A receiver that takes no connections, or does not answer, holds up neither deliveries nor others.
func TestCallbackOfDeadReceiver(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	c.limit.Share = 1
	silent := testkit.Listen(t)
	dead := &receiver{Server: &httptest.Server{Listener: silent}}
	alive := receives(t, c.pair)
	c.starts(201, dead, alive)
	for range 40 {
		c.accepts("https://" + silent.Addr().String())
	}
	id := c.accepts(alive.URL)
	if got := testkit.Receive(t, alive.got, "a callback"); got.ID != id.String() {
		t.Errorf("it received %+v", got)
	}
	testkit.Eventually(t, "all orders are done", func() bool {
		for _, s := range c.d.stats().Rules {
			if s.Rule == "orders" {
				return s.States[deferred.Done].Entries == 41
			}
		}
		return false
	})
	if n := c.d.busyWith(CallbackRule); n > c.d.cfg.Hosts.Parallel()+1 {
		t.Errorf("%d callbacks are under way", n)
	}
}
