package remote

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/test/relay"
	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/asks"
	"weir/proxy/store/lane"
	"weir/proxy/store/simredis"
	"weir/proxy/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, opener(t))
}

// A batch that does not fit into one question becomes several, and a key that fits into
// none is a fault of its own.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	b, prefix := mastered(t)
	batch := new(store.Batch)
	for i := range 40 {
		g := one(2, prefix+"r", fixed(30))
		g.Counters[0].Key = make([]byte, 60_000)
		g.Counters[0].Key[0] = byte(i % 2)
		batch.Groups = append(batch.Groups, g)
	}
	batch.Groups[7].Counters[0].Key = make([]byte, asks.BatchBytesMax)
	b.ask(batch)
	granted := 0
	for i, g := range batch.Groups {
		if (g.Err != nil) != (i == 7) {
			t.Errorf("group %d: %v", i, g.Err)
		}
		granted += g.Granted
	}
	if calls := b.commands.Load(); granted != 60 || calls < 5 {
		t.Errorf("%d are granted in %d calls, want 60 in some", granted, calls)
	}
	if f := b.Classify(batch.Groups[7].Err); f.Class != store.ItemFault {
		t.Errorf("a key that is too large: %+v", f)
	}
}

// A batch whose states may not fit into one answer becomes several questions.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	b, prefix := mastered(t)
	log := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: limit.LogMax, Window: 3600})
	batch := new(store.Batch)
	for i := range 40 {
		g := one(1, prefix+"r", log)
		g.Counters[0].Key = []byte{byte(i)}
		batch.Groups = append(batch.Groups, g)
	}
	b.ask(batch)
	for i, g := range batch.Groups {
		if g.Err != nil || g.Granted != 1 {
			t.Errorf("group %d: %v, %d granted", i, g.Err, g.Granted)
		}
	}
	if calls, want := b.commands.Load(), uint64(3); calls != want {
		t.Errorf("%d calls, want %d of at most %d states", calls, want, asks.AnswerBytesMax/log.BytesMax(0))
	}
}

// A master may use TLS.
func TestSecureMaster(t *testing.T) {
	t.Parallel()
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	w := newWorld(t)
	prefix, _ := w.open(t)
	m := startSecure(t, w, "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	cfg := config()
	cfg.URLs = []string{"https://" + m.Addr().String()}
	b := openSidecar(t, cfg)
	err := b.decide(one(1, prefix+"r", fixed(5))).Err
	if b.Classify(err).Class != store.OutageFault || !strings.Contains(err.Error(), "handshake with "+cfg.URLs[0]) {
		t.Errorf("a stranger: %v", err)
	}
	cfg.CAFile, _ = testkit.WritePair(t, pair)
	b = openSidecar(t, cfg)
	batch := new(store.Batch)
	for i := range 2 { // two questions
		batch.Groups = append(batch.Groups, one(2, prefix+"r", fixed(3)))
		batch.Groups[i].Counters[0].Key = make([]byte, asks.BatchBytesMax/4)
	}
	if b.ask(batch); batch.Groups[0].Granted != 2 || batch.Groups[1].Granted != 1 {
		t.Errorf("%+v, %+v, want 2 and 1 granted", batch.Groups[0], batch.Groups[1])
	}
	if idle := b.idle(); idle != 1 || b.commands.Load() != 2 {
		t.Errorf("%d questions, %d connections, want 2 on one", b.commands.Load(), idle)
	}
	if err := b.Probe(background); err != nil {
		t.Error(err)
	}
}

// What no question holds is a fault of its own: the batch beside it is decided.
func TestBatchBesideFaults(t *testing.T) {
	t.Parallel()
	b, prefix := mastered(t)
	long := one(1, prefix+strings.Repeat("r", 1<<16), fixed(3))
	longest := one(1, prefix+strings.Repeat("r", asks.RuleBytesMax-len(prefix)), fixed(3))
	apart := one(1, prefix+"r", fixed(3)) // two keys of one rule, as descriptors may have
	apart.Counters = append(apart.Counters, apart.Counters[0])
	apart.Counters[1].Key = []byte("another")
	batch := &store.Batch{Groups: []*store.Group{long, longest, apart}}
	leaky := testkit.Must(limit.New(limit.Config{Algorithm: limit.Leaky, Capacity: 1, FillRate: 0.001}))(t)
	for range 40 {
		r := store.Refund{Counter: one(1, prefix+"queue", &leaky).Counters[0], Instant: 1}
		r.Counter.Key = make([]byte, 60_000)
		batch.Refunds = append(batch.Refunds, r)
	}
	b.ask(batch)
	if f := b.Classify(long.Err); f.Class != store.ItemFault {
		t.Errorf("a rule that is too long: %v", long.Err)
	}
	if longest.Err != nil || apart.Err != nil || longest.Granted+apart.Granted != 2 {
		t.Errorf("%v, %v; %d and %d are granted", longest.Err, apart.Err, longest.Granted, apart.Granted)
	}
	if errors := b.errors.Load(); errors != 0 {
		t.Errorf("%d calls fail", errors)
	}
}

// A master of an earlier version, which answers 400 to questions with debt, decides about what is asked beside it.
func TestDebtBesideOthers(t *testing.T) {
	t.Parallel()
	_, prefix, m := startWorld(t)
	master := httputil.NewSingleHostReverseProxy(testkit.Must(url.Parse(config(m).URLs[0]))(t))
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var q asks.Batch
		if err != nil || q.Parse(body) != nil || slices.ContainsFunc(q.Asks, func(a store.Ask) bool {
			return a.Counters[0].Debt > 0
		}) {
			http.Error(w, "", http.StatusBadRequest)
			return
		}
		master.ServeHTTP(w, r)
	}))
	t.Cleanup(old.Close)
	cfg := config(m)
	cfg.URLs[0] = old.URL
	b := openSidecar(t, cfg)
	leaky := testkit.Must(limit.New(limit.Config{Algorithm: limit.Leaky, Capacity: 1, FillRate: 0.001}))(t)
	batch := &store.Batch{Refunds: []store.Refund{{Counter: one(1, prefix+"queue", &leaky).Counters[0], Instant: 1}}}
	for i := range 6 {
		g := one(1, prefix+"r", fixed(10))
		if i%2 == 0 {
			g.Counters[0].Debt = g.Counters[0].Limit.Debt(1)
		}
		batch.Groups = append(batch.Groups, g)
	}
	b.ask(batch)
	for i, g := range batch.Groups {
		if class := b.Classify(g.Err).Class; (class == store.ItemFault) != (i%2 == 0) || (g.Granted == 1) == (i%2 == 0) {
			t.Errorf("group %d: %d are granted, %v", i, g.Granted, g.Err)
		}
	}
	if calls := b.commands.Load(); calls != 2 {
		t.Errorf("%d questions, want 2", calls)
	}
}

// The place of a request that has left goes to the next one.
func TestRelease(t *testing.T) {
	t.Parallel()
	b, prefix := mastered(t)
	l := testkit.Must(limit.New(limit.Config{Algorithm: limit.Leaky, Capacity: 1, FillRate: 0.001}))(t)
	ask := func(refunds ...store.Refund) (int, int64) {
		g := one(2, prefix+"queue", &l)
		b.ask(&store.Batch{Groups: []*store.Group{g}, Refunds: refunds})
		if g.Err != nil {
			t.Fatal(g.Err)
		}
		var ans store.Answer
		storetest.ComputeAnswer(g, &ans)
		return g.Granted, g.At[0] + 1e9 // the slot of the second
	}
	granted, slot := ask()
	if granted != 2 {
		t.Fatalf("%d are granted", granted)
	}
	if granted, _ = ask(); granted != 0 {
		t.Fatalf("%d are granted beyond the queue", granted)
	}
	if granted, _ = ask(store.Refund{Counter: one(1, prefix+"queue", &l).Counters[0], Instant: slot}); granted != 1 {
		t.Errorf("%d are granted of the place that was given back", granted)
	}
}

// Documents are read and followed, not written.
func TestDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := openSidecar(t, config(startMaster(t, w, "127.0.0.1:0")))
	names := []string{"ratelimiter:config", "ratelimiter:rules"}
	var before []string
	testkit.Eventually(t, "documents are shown", func() (ok bool) {
		var err error
		before, err = b.Marks(background, names)
		return err == nil
	})
	if doc, err := b.Read(background, names[0]); err != nil || doc.Version != 0 || len(doc.Body) > 0 {
		t.Errorf("never written: %+v, %v", doc, err)
	}
	if _, _, err := w.CompareAndSet(names[0], 0, []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the document is another", func() bool {
		after, err := b.Marks(background, names)
		if err != nil || after[1] != before[1] {
			t.Fatalf("%q becomes %q, %v", before, after, err)
		}
		return after[0] != before[0]
	})
	if doc, err := b.Read(background, names[0]); err != nil || doc.Version != 1 || string(doc.Body) != `{"a":1}` {
		t.Errorf("%+v, %v", doc, err)
	}
	if _, err := b.CompareAndSet(background, names[0], 1, []byte("{}")); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("written: %v", err)
	}
	edits, _ := b.Edits(background)
	prefix, _ := w.open(t)
	if _, err := b.Forget(background, prefix+"r", []byte("k")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the edit is counted", func() bool {
		after, err := b.Edits(background)
		return err == nil && after != edits
	})
}

// A sidecar without rights, or with another version, gets an error that says so.
func TestRights(t *testing.T) {
	t.Parallel()
	_, prefix, m := startWorld(t)
	for token, want := range map[string]struct {
		decide, edit store.ErrorClass
	}{
		"admin":  {store.NoFault, store.NoFault},
		"secret": {store.NoFault, store.ItemFault},
		"wrong":  {store.OutageFault, store.OutageFault},
		"":       {store.OutageFault, store.OutageFault},
	} {
		cfg := config(m)
		cfg.Token = token
		b := openSidecar(t, cfg)
		if f := b.Classify(b.decide(one(1, prefix+"r", fixed(5))).Err); f.Class != want.decide {
			t.Errorf("token %q decides: %+v", token, f)
		} else if want.decide == store.OutageFault && f.Permanent.Cause != store.Unauthenticated {
			t.Errorf("token %q: %v", token, f.Permanent)
		}
		_, err := b.Forget(background, prefix+"r", nil)
		if f := b.Classify(err); f.Class != want.edit {
			t.Errorf("token %q edits: %+v", token, f)
		}
	}
}

// answers is a program that is no master, or none of this version.
func answers(t testing.TB, status int, body string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestWrongMasters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		class  store.ErrorClass
		cause  store.MisconfigCause
	}{
		"garbage":            {200, "<html>", store.OutageFault, store.WrongProtocol},
		"nothing":            {200, "", store.OutageFault, store.WrongProtocol},
		"another version":    {409, `{"error":"version 2"}`, store.OutageFault, store.WrongProtocol},
		"a newer answer":     {200, "\x02", store.OutageFault, store.WrongProtocol},
		"another program":    {404, "", store.OutageFault, store.WrongProtocol},
		"a redirect":         {302, "", store.OutageFault, store.WrongProtocol},
		"a wrong token":      {401, "", store.OutageFault, store.Unauthenticated},
		"a master that ends": {503, "", store.OutageFault, 0},
		"a proxy's fault":    {502, "", store.OutageFault, 0},
		"a fault of ours":    {400, "", store.ItemFault, 0},
		"too large":          {413, "", store.ItemFault, 0},
	} {
		b := openSidecar(t, Config{URLs: []string{answers(t, test.status, test.body).URL}})
		g := b.decide(one(1, "r", fixed(5)))
		f := b.Classify(g.Err)
		if f.Class != test.class || (f.Permanent != nil) != (test.cause != 0) || test.cause != 0 &&
			f.Permanent.Cause != test.cause {
			t.Errorf("%s: %v is %+v", name, g.Err, f)
		}
		if f = b.Classify(b.Probe(background)); f.Class != test.class {
			t.Errorf("%s, probed: %+v", name, f)
		}
	}
}

// A master whose own store is unavailable is none.
func TestMasterWithoutStore(t *testing.T) {
	t.Parallel()
	w, prefix, m := startWorld(t)
	b := openSidecar(t, config(m))
	w.mode.Store(uint32(store.FailOpen))
	g := b.decide(one(1, prefix+"r", fixed(5)))
	if f := b.Classify(g.Err); f.Class != store.OutageFault || f.Code != "failopen" || f.Permanent != nil {
		t.Errorf("%v is %+v", g.Err, f)
	}
	if b.Probe(background) == nil {
		t.Error("it is taken for one that decides")
	}
	w.mode.Store(uint32(store.Exact))
	if err := b.Probe(background); err != nil {
		t.Error(err)
	}
}

// Masters are tried in order; what one of them has been sent goes to no other.
func TestOrder(t *testing.T) {
	t.Parallel()
	_, prefix, m := startWorld(t)
	var reached atomic.Int64
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer breaks.Close()
	cfg := config(m)
	cfg.URLs = append([]string{"http://" + testkit.FreeAddr(t)}, cfg.URLs...)
	b := openSidecar(t, cfg)
	if g := b.decide(one(3, prefix+"r", fixed(5))); g.Err != nil || g.Granted != 3 || b.current.Load() != 1 {
		t.Errorf("the first is gone: %+v, master %d", g.Err, b.current.Load())
	}
	cfg.URLs[0] = breaks.URL
	b = openSidecar(t, cfg)
	if g := b.decide(one(1, prefix+"r", fixed(5))); g.Err == nil || reached.Load() != 1 {
		t.Errorf("the first breaks off: %v, reached %d times", g.Err, reached.Load())
	}
	if err := b.Probe(background); err != nil || b.current.Load() != 1 {
		t.Errorf("nobody was found: %v", err)
	}
	if g := b.decide(one(5, prefix+"r", fixed(5))); g.Err != nil || g.Granted != 2 {
		t.Errorf("%d are granted, %v, want the 2 that are left", g.Granted, g.Err)
	}
}

// A sidecar's requests are admitted while its master is away, at once, and limited again
// when there is one, with an empty store, too.
func TestMasterRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prefix, _ := w.open(t)
	addr := testkit.FreeAddr(t) // nobody else gets it between the two masters
	m := startMaster(t, w, addr)
	cfg := config(m)
	cfg.Timeout = 2 * time.Second // one late call is an outage
	s := testkit.Must(New(cfg))(t)
	defer s.Close()
	g := testkit.Must(loop.Start(loop.Config{Loops: 1}))(t)
	l := lane.ForLoop(s, g.Loops()[0])
	defer l.Close()
	defer g.Stop()
	ask := func() store.Answer {
		answers := make(chan store.Answer, 1)
		g.Loops()[0].Post(func(now time.Time) {
			var ans store.Answer
			done := func(_ time.Time, ans *store.Answer) { answers <- *ans }
			if l.Ask(now, &store.Ask{N: 1, Counters: one(1, prefix+"r", fixed(1)).Counters}, &ans, done) {
				answers <- ans
			}
		})
		return <-answers
	}
	if ans := ask(); ans.Mode != store.Exact || ans.Granted != 1 {
		t.Fatalf("%+v", ans)
	}
	if ans := ask(); ans.Granted != 0 {
		t.Fatalf("beyond the limit: %+v", ans)
	}
	m.stop()
	testkit.Eventually(t, "the store is away", func() bool { return s.Mode() == store.FailOpen })
	if ans := ask(); ans.Mode != store.FailOpen || ans.Granted != 1 {
		t.Errorf("without a master: %+v", ans)
	}
	other := newWorld(t)
	other.open(t)
	startMaster(t, other, addr)
	testkit.Eventually(t, "the store is back", func() bool { return s.Mode() == store.Exact })
	if ans := ask(); ans.Mode != store.Exact || ans.Granted != 1 {
		t.Errorf("an empty store: %+v", ans)
	}
	if ans := ask(); ans.Granted != 0 {
		t.Errorf("beyond the limit: %+v", ans)
	}
}

// Connections to a master that accepts them and says nothing are given up.
func TestSilentMaster(t *testing.T) {
	l := testkit.Listen(t)
	var accepted, closed atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			go func() {
				_, _ = io.Copy(io.Discard, c) // until the sidecar has closed it
				closed.Add(1)
				c.Close()
			}()
		}
	}()
	cfg := config()
	cfg.URLs, cfg.Timeout = []string{"https://" + l.Addr().String()}, 20*time.Millisecond
	b := testkit.Must(newBackend(cfg))(t)
	defer b.Close()
	testkit.Eventually(t, "there is a connection", func() bool {
		if err := b.Probe(background); err == nil {
			t.Error("a master that says nothing is one that decides")
		}
		return accepted.Load() > 0
	})
	testkit.Eventually(t, "it is closed", func() bool { return closed.Load() == accepted.Load() })
}

// relayed is a relay that the test closes.
func relayed(t testing.TB, to func() string) *relay.Relay {
	t.Helper()
	r := testkit.Must(relay.New(to))(t)
	t.Cleanup(r.Close)
	return r
}

// A connection that has answered something else is not used again: behind a balancer it
// leads to the same program for as long as it is kept.
func TestBalancedMasters(t *testing.T) {
	t.Parallel()
	_, prefix, good := startWorld(t)
	other := answers(t, 200, "<html>")
	var connections atomic.Int32
	balancer := relayed(t, func() string {
		if connections.Add(1) == 1 {
			return other.Listener.Addr().String()
		}
		return good.Addr().String()
	})
	cfg := config(good)
	cfg.URLs = []string{"http://" + balancer.Addr()}
	b := openSidecar(t, cfg)
	if f := b.Classify(b.decide(one(1, prefix+"r", fixed(5))).Err); f.Permanent == nil ||
		f.Permanent.Cause != store.WrongProtocol {
		t.Errorf("the first connection: %+v", f)
	}
	if err := b.Probe(background); err != nil {
		t.Error(err)
	}
	if g := b.decide(one(1, prefix+"r", fixed(5))); g.Err != nil || g.Granted != 1 {
		t.Errorf("%+v", g)
	}
}

// Masters that do not answer do not delay finding those that do, and are asked again.
func TestProbeOfSilentMasters(t *testing.T) {
	t.Parallel()
	_, prefix, good := startWorld(t)
	silent := testkit.Listen(t) // accepts nothing, and so says nothing
	var connections atomic.Int32
	later := relayed(t, func() string {
		if connections.Add(1) <= 2 {
			return silent.Addr().String()
		}
		return good.Addr().String()
	})
	for name, urls := range map[string][]string{
		"15 are silent": append(slices.Repeat([]string{"http://" + silent.Addr().String()}, 15),
			"http://"+good.Addr().String()),
		"it answers later": {"http://" + later.Addr()},
	} {
		cfg := config()
		cfg.URLs = urls
		b := openSidecar(t, cfg)
		if err := b.Probe(background); err != nil || b.current.Load() != int32(len(urls)-1) {
			t.Errorf("%s: %v, master %d", name, err, b.current.Load())
		}
		if g := b.decide(one(1, prefix+name, fixed(5))); g.Err != nil || g.Granted != 1 {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no URL":     {},
		"a path":     {URLs: []string{"http://a/b"}},
		"ftp":        {URLs: []string{"ftp://a"}},
		"a password": {URLs: []string{"http://u:p@a"}},
		"two lines":  {URLs: []string{"http://a"}, Token: "a\nb"},
		"3 seconds":  {URLs: []string{"http://a"}, Config: lane.Config{Timeout: 3 * time.Second}},
		"a crowd":    {URLs: strings.Split(strings.Repeat(",http://a", 17)[1:], ",")},
	} {
		if s, err := New(cfg); err == nil {
			s.Close()
			t.Errorf("%s: is taken", name)
		}
	}
}

// How many batches may miss their deadlines depends on how long those are.
func TestMisses(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]int{time.Millisecond: 5, 100 * time.Millisecond: 5,
		150 * time.Millisecond: 3, 500 * time.Millisecond: 1, 2 * time.Second: 1} {
		if got := (Config{Config: lane.Config{Timeout: timeout}}).withDefaults().Misses; got != want {
			t.Errorf("timeout %v: %d, want %d", timeout, got, want)
		}
	}
}

// When the store of a master has lost its keys, or edits them, sidecars forget what they remember.
func TestMasterForgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prefix, tab := w.open(t)
	s := testkit.Must(New(config(startMaster(t, w, "127.0.0.1:0"))))(t)
	t.Cleanup(s.Close)
	ask := storetest.NewAsker(t, s)
	c := store.Counter{Rule: prefix + "r", Key: []byte("k"), Limit: fixed(1), Cost: 1}
	testkit.Eventually(t, "a refusal is remembered", func() bool { return ask(1, c).Mode == store.Cached })
	tab.Forget(c.Rule, c.Key)
	w.ForgetRefusals()
	testkit.Eventually(t, "it is admitted", func() bool {
		ans := ask(1, c)
		return ans.Mode == store.Exact &&
			ans.Granted == 1
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	master := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(master.Close)
	s := testkit.Must(New(config(startMaster(t, master, "127.0.0.1:0"))))(t)
	t.Cleanup(s.Close)
	storetest.Refusals(t, s)
}
