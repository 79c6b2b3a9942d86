package admin

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// A sharedStore is what several proxies see through their links.
//
// Safe for concurrent use: mu guards.
type sharedStore struct {
	mu      sync.Mutex
	docs    *simredis.DocumentStore
	foreign *store.Document // in place of the document: no proxy has written it
	writes  int             // those asked for
}

func newSharedStore() *sharedStore { return &sharedStore{docs: new(simredis.DocumentStore)} }

// flush empties the store.
func (s *sharedStore) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.docs, s.foreign = new(simredis.DocumentStore), nil
}

// replace puts body in the document's place, as something else than a proxy does
// that knows nothing of versions.
func (s *sharedStore) replace(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.foreign = &store.Document{Body: []byte(body), Version: -1}
}

// garble makes body the document's next version.
func (s *sharedStore) garble(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, _ := s.docs.Read(ConfigName)
	_, _, _ = s.docs.CompareAndSet(ConfigName, doc.Version, []byte(body))
}

func (s *sharedStore) read() store.Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.foreign != nil {
		return *s.foreign
	}
	doc, _ := s.docs.Read(ConfigName)
	return doc
}

func (s *sharedStore) compareAndSet(version int64, body []byte) (store.Document, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.foreign != nil {
		if version != s.foreign.Version {
			return *s.foreign, false, nil
		}
		s.docs, s.foreign, version = new(simredis.DocumentStore), nil, 0
	}
	return s.docs.CompareAndSet(ConfigName, version, body)
}

// A reach is how well a proxy reaches the store.
type reach uint8

const (
	reachAll  reach = iota
	reachNone       // the store is away
	reachRead       // writes are refused, as by a store that is full or read-only
	reachLost       // writes happen, and their answers are lost
	reachLate       // somebody else is always first to write
)

var errUnreachable = errors.New("no answer")

// A link is how one proxy sees the store.
//
// Safe for concurrent use: mu guards.
type link struct {
	store *sharedStore

	mu     sync.Mutex
	reach  reach
	beaten func() // comes between this proxy and its next write
}

func (k *link) set(r reach) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reach = r
}

func (k *link) now() (reach, func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	beaten := k.beaten
	k.beaten = nil
	return k.reach, beaten
}

func (k *link) Read(string) (store.Document, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reach == reachNone {
		return store.Document{}, errUnreachable
	}
	return k.store.read(), nil
}

func (k *link) CompareAndSet(_ string, version int64, body []byte) (store.Document, bool, error) {
	r, beaten := k.now()
	if beaten != nil {
		beaten()
	}
	switch r {
	case reachNone, reachRead:
		return store.Document{}, false, errUnreachable
	case reachLate:
		return k.store.read(), false, nil
	case reachLost:
		_, _, _ = k.store.compareAndSet(version, body)
		return store.Document{}, false, errUnreachable
	}
	return k.store.compareAndSet(version, body)
}

// A peer has what the proxies of a fleet have in common, whichever document they share: the
// store's watcher, which reports each version once, and what was reported.
type peer struct {
	link    *link
	log     *testkit.LogRecords
	skew    time.Duration // of its clock
	watched *store.Document
	changes int // calls of OnChange
}

func (p *peer) common() *peer { return p }

// begin makes it a peer that knows nothing yet.
func (p *peer) begin() { p.log, p.watched, p.changes = new(testkit.LogRecords), nil, 0 }

// fresh returns the document if it is another one than before, as the store's watcher does.
func (p *peer) fresh() *store.Document {
	doc, err := p.link.Read("")
	if err != nil || p.watched != nil && p.watched.Version == doc.Version && bytes.Equal(p.watched.Body, doc.Body) {
		return nil
	}
	p.watched = &doc
	return &doc
}

// A proxy is one of a fleet.
type proxy interface {
	common() *peer
	start(t *testing.T, now time.Time) // it knows nothing yet
	tell() string                      // what is in force: "7 v3 store"; see describe
	// do does a step of a script, on the proxy's clock. "set" is the step that changes the
	// document.
	do(now time.Time, words []string) (known bool, err error)

	// The methods of its document.
	Observe(now time.Time, doc store.Document)
	Sync(now time.Time)
	syncPending(now time.Time)
	readEntry(doc store.Document) (*entry, error)
	state() (*entry, situation, *ChangeInfo)
}

// state returns the latest known change, the situation, and what is in force.
func (d *document[T]) state() (*entry, situation, *ChangeInfo) {
	return d.known, d.situation, d.info(d.Active())
}

// describe describes what is in force, with "!" behind it when Active says something else about
// the store than there is to say.
func (d *document[T]) describe(what string) string {
	_, situation, info := d.state()
	text := fmt.Sprintf("%s v%d %v", what, info.Version, situation)
	if info.Stored != (situation == situationStore && info.Source != SourceDefault) || info.Version != d.version {
		text += "!"
	}
	return text
}

// A member is a proxy that shares its limits.
type member struct {
	*Limits
	peer
}

func (m *member) start(t *testing.T, now time.Time) {
	t.Helper()
	m.begin()
	var err error
	if m.Limits, err = NewLimits(now, settings, m.link, m.log.Logger); err != nil {
		t.Fatal(err)
	}
	m.OnChange = func() { m.changes++ }
}

func (m *member) tell() string {
	a := m.Active()
	if a.Source == SourceDefault {
		return m.describe("settings")
	}
	return m.describe(fmt.Sprint(a.Policy.Limit.Permits()))
}

func (m *member) do(now time.Time, words []string) (known bool, err error) {
	switch words[0] {
	case "set": // N [if-match]
		_, err = m.Apply(now, LimitChange{Config: fixed(numberAt(words, 1)), Source: SourceAPI, IfMatch: numberAt(words, 2)})
	case "switch":
		_, err = m.Switch(now, limit.Token, -1)
	case "delete":
		_, err = m.Delete(now, -1)
	default:
		return false, nil
	}
	return true, err
}

// A fleet is several proxies of one store.
type fleet[P proxy] struct {
	t     *testing.T
	store *sharedStore
	names []string
	of    map[string]P
	now   time.Time
	lazy  bool // the proxies read the store only for what is pending
}

// newFleet starts proxies with these names.
func newFleet(t *testing.T, names ...string) *fleet[*member] {
	return fleetOf(t, func(k *link) *member { return &member{peer: peer{link: k}} }, names)
}

func fleetOf[P proxy](t *testing.T, fresh func(*link) P, names []string) *fleet[P] {
	t.Helper()
	f := &fleet[P]{t: t, store: newSharedStore(), names: names, of: make(map[string]P), now: epoch}
	for _, name := range names {
		f.of[name] = fresh(&link{store: f.store})
		f.of[name].start(t, epoch)
	}
	return f
}

// watch does what the store's watcher does for a proxy.
func (f *fleet[P]) watch(p P) {
	if doc := p.common().fresh(); doc != nil {
		p.Observe(f.now.Add(p.common().skew), *doc)
	}
}

// round is a second of all proxies: changes are reported to them, and those of their own are
// written.
func (f *fleet[P]) round() {
	for _, name := range f.names {
		p := f.of[name]
		f.watch(p)
		if now := f.now.Add(p.common().skew); f.lazy {
			p.syncPending(now)
		} else {
			p.Sync(now)
		}
	}
}

// fixed is the configuration of scripts: n permits a second.
func fixed(n int64) limit.Config { return limit.Config{Algorithm: limit.Fixed, Limit: n, Window: 1} }

// play runs a script: steps parted by semicolons, a second apart.
func (f *fleet[P]) play(script string) {
	f.t.Helper()
	for step := range strings.SplitSeq(script, ";") {
		f.now = f.now.Add(time.Second)
		words := strings.Fields(step)
		if p, ok := f.of[words[0]]; ok {
			f.step(p, step, words[1:])
			continue
		}
		switch words[0] {
		case "flush":
			f.store.flush()
		case "foreign":
			f.store.replace(words[1])
		case "garbage":
			f.store.garble(words[1])
		case "written": // that many writes were asked for
			if got := fmt.Sprint(f.store.writes); got != words[1] {
				f.t.Errorf("%s: %s", step, got)
			}
		case "round":
			f.round()
		case "holds": // the start of the body and its version
			doc := f.store.read()
			if got := strings.TrimSpace(fmt.Sprintf("%s v%d", doc.Body, doc.Version)); got != strings.Join(words[1:], " ") {
				f.t.Errorf("%s: the store holds %s", step, got)
			}
		default:
			f.t.Fatalf("no such step: %s", step)
		}
	}
}

// numberAt is the number that a step has at a place; -1: it has none there.
func numberAt(words []string, i int) (n int64) {
	if i >= len(words) {
		return -1
	}
	_, _ = fmt.Sscan(words[i], &n)
	return n
}

// change has a proxy change the document.
func (f *fleet[P]) change(p P, words ...string) error {
	_, err := p.do(f.now.Add(p.common().skew), append([]string{"set"}, words...))
	return err
}

var reaches = map[string]reach{"away": reachNone, "deaf": reachLost, "readonly": reachRead, "late": reachLate,
	"back": reachAll}

// step is what one proxy does, or is found to be.
func (f *fleet[P]) step(p P, step string, words []string) {
	f.t.Helper()
	m := p.common()
	now := f.now.Add(m.skew)
	switch words[0] {
	case "refused": // WHAT if-match
		if err := f.change(p, words[1:]...); !errors.Is(err, ErrConflict) {
			f.t.Errorf("%s: %v", step, err)
		}
	case "beaten": // by NAME's WHAT
		m.link.beaten = func() {
			if err := f.change(f.of[words[1]], words[2]); err != nil {
				f.t.Errorf("%s: %v", step, err)
			}
		}
	case "restart":
		p.start(f.t, now)
	case "sync":
		p.Sync(now)
	case "skew":
		m.skew = time.Duration(numberAt(words, 1)) * time.Second
	case "away", "deaf", "readonly", "late", "back":
		m.link.set(reaches[words[0]])
	case "is":
		if got, want := p.tell(), strings.Join(words[1:], " "); got != want {
			f.t.Errorf("%s: is %s", step, got)
		}
	case "logged": // number of lines that contain a word
		if got := strings.Count(strings.Join(m.log.Taken(), "\n"), words[2]); int64(got) != numberAt(words, 1) {
			f.t.Errorf("%s: %d times", step, got)
		}
	case "changes":
		if int64(m.changes) != numberAt(words, 1) {
			f.t.Errorf("%s: %d", step, m.changes)
		}
	default:
		if known, err := p.do(now, words); !known || err != nil {
			f.t.Errorf("%s: known %t, %v", step, known, err)
		}
	}
}
