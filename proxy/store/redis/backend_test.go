package redis

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// rulesBody is a document of the size of 10,000 rules, which differs from others in
// its first bytes, as all do.
func rulesBody(serial int) []byte {
	return fmt.Appendf(nil, `{"serial":%d,"rules":"%s"}`, serial, bytes.Repeat([]byte("r"), 3_400_000))
}

// A linked store watches a document over a relay and is asked for decisions all the time.
type linked struct {
	t      *testing.T
	s      *redistest.Server
	wire   *wire
	c      *testStore
	direct *testStore // of the same server, not behind the wire
	loop   *loop
	log    *testkit.Log
	seen   atomic.Pointer[store.Document]
	asked  int
}

func newLinked(t *testing.T) *linked {
	s := redistest.Start(t)
	l := &linked{t: t, s: s, wire: newWire(t, s.Addr()), direct: newTestStore(t, config(s)), log: new(testkit.Log)}
	cfg := config(s)
	cfg.Addrs, cfg.Log = []string{l.wire.Addr()}, l.log.Logger()
	l.c = newTestStore(t, cfg)
	l.loop = newLoop(t, l.c)
	l.c.Watch(docName, func(doc store.Document) { l.seen.Store(&doc) })
	l.until("the document is watched", func() bool { return l.seen.Load() != nil })
	return l
}

// until asks for decisions until a condition holds: every one is exact.
func (l *linked) until(what string, holds func() bool) {
	l.t.Helper()
	testkit.Eventually(l.t, what, func() bool {
		l.asked++
		ans := l.loop.ask(1, counter("k", fixed(1_000_000)))
		if ans.Mode != store.Exact || ans.Decision().Remaining != int64(1_000_000-l.asked) {
			l.t.Errorf("ask %d: %+v", l.asked, ans)
		}
		return l.t.Failed() || holds()
	})
}

// holds reports whether the store was told of that version of the document, with that body.
func (l *linked) holds(version int64, body []byte) bool {
	doc := l.seen.Load()
	return doc.Version == version && bytes.Equal(doc.Body, body)
}

// quiet fails if there was an outage, or something to be said about one.
func (l *linked) quiet() {
	l.t.Helper()
	if n := l.c.Stats(); n.Undecided != 0 || !l.c.Connected() || l.log.String() != "" {
		l.t.Errorf("connected %v, %+v, logged:\n%s", l.c.Connected(), n, l.log.String())
	}
}

// Over a link on which a large document takes longer than a decision may, decisions
// stay exact while it is fetched and while it is written.
func TestLargeDocumentOverASlowLink(t *testing.T) {
	t.Parallel()
	l := newLinked(t)
	l.wire.set(spoil{rate: 1_500_000})
	first, second := rulesBody(1), rulesBody(2)
	if _, written, err := l.direct.CompareAndSet(docName, 0, first); !written || err != nil {
		t.Fatal(written, err)
	}
	l.until("it is fetched", func() bool { return l.holds(1, first) })
	var writing sync.WaitGroup
	writing.Go(func() {
		if doc, written, err := l.c.CompareAndSet(docName, 1, second); !written || err != nil || doc.Version != 2 {
			t.Errorf("written %v as %d, %v", written, doc.Version, err)
		}
	})
	l.until("it is written and fetched", func() bool { return l.holds(2, second) })
	writing.Wait()
	l.quiet()
}

// An idle proxy that watches a large document carries a few hundred bytes with each
// look, of which there are four in a second.
func TestIdleTraffic(t *testing.T) {
	t.Parallel()
	const looks, bytesPerLookMax = 20, 1000
	l := newLinked(t)
	body := rulesBody(1)
	if _, written, err := l.direct.CompareAndSet(docName, 0, body); !written || err != nil {
		t.Fatal(written, err)
	}
	l.until("it is fetched", func() bool { return l.holds(1, body) })
	looked := func() (n int) {
		_, calls, _ := strings.Cut(l.s.Do("info", "commandstats"), "cmdstat_strlen:calls=")
		fmt.Sscan(strings.ReplaceAll(calls, ",", " "), &n)
		return n
	}
	before, from := looked(), l.wire.sum()
	testkit.Eventually(t, "it was looked at again", func() bool { return looked() >= before+looks })
	carried := l.wire.sum() - from
	if now := looked(); carried > (now-before+1)*bytesPerLookMax {
		t.Errorf("%d bytes for %d looks", carried, now-before)
	}
}

// A connection for documents that gets no answers, or only refusals, is logged once, and does not affect
// decisions.
func TestDocumentsFailAlone(t *testing.T) {
	t.Parallel()
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		l := newLinked(t)
		l.wire.set(spoil{dumb: true, spared: 2}) // the one that asked what the server is, and that of decisions
		if _, _, err := l.c.CompareAndSet(docName, 0, []byte("1")); err == nil {
			t.Error("written without an answer")
		}
		l.until("two looks are given up", func() bool { return l.c.Stats().DocumentErrors > 2 })
		l.quiet()
		l.wire.set(spoil{})
		l.until("documents are read again", func() bool { return l.holds(1, []byte("1")) })
	})
	t.Run("not permitted", func(t *testing.T) {
		t.Parallel()
		l := newLinked(t)
		l.s.Do("acl", "setuser", "default", "-strlen")
		const line = "Documents cannot be read, decisions are not affected"
		l.until("it is told", func() bool { return l.log.Count(line) > 0 })
		l.s.Do("acl", "setuser", "default", "+strlen")
		if _, written, err := l.direct.CompareAndSet(docName, 0, []byte("1")); !written || err != nil {
			t.Fatal(written, err)
		}
		l.until("documents are read again", func() bool { return l.holds(1, []byte("1")) })
		if n := l.c.Stats(); l.log.Count(line) != 1 || l.log.Count("Redis connection lost") != 0 || n.Undecided != 0 {
			t.Errorf("%+v, logged:\n%s", n, l.log.String())
		}
	})
}

// A store that was emptied and written anew between two looks, with the version and
// the length that the document had, is noticed; so are values of strangers.
func TestWatchTellsValuesApart(t *testing.T) {
	t.Parallel()
	l := newLinked(t)
	first, again := rulesBody(1), rulesBody(2)
	if _, written, err := l.direct.CompareAndSet(docName, 0, first); !written || err != nil {
		t.Fatal(written, err)
	}
	l.until("the first is seen", func() bool { return l.holds(1, first) })
	conn := dial(l.s)
	stored := func(body []byte) string { return fmt.Sprintf(`{"version":1,"document":%s}`, body) }
	for _, test := range []struct {
		name, value string
		want        store.Document
	}{
		{"the same version", stored(again), store.Document{Version: 1, Body: again}},
		{"a stranger's value", strings.Repeat("x", 1_000_000),
			store.Document{Version: store.UnknownVersion, Body: bytes.Repeat([]byte("x"), 1_000_000)}},
		{"a longer one", strings.Repeat("x", 1_000_001),
			store.Document{Version: store.UnknownVersion, Body: bytes.Repeat([]byte("x"), 1_000_001)}},
		{"one that is not read, as it is too large", strings.Repeat("x", store.DocumentBytesMax+100),
			store.Document{Version: store.UnknownVersion}},
		{"nothing", "", store.Document{}},
	} {
		must(t, conn.Do(background, conn.B().Set().Key(docName).Value(test.value).Build()))
		l.until(test.name, func() bool { return l.holds(test.want.Version, test.want.Body) })
	}
	l.quiet()
}
