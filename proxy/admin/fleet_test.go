package admin

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// A sharedStore is what several proxies see through their links.
//
// Safe for concurrent use: mu guards.
type sharedStore struct {
	mu      sync.Mutex
	docs    *simredis.Documents
	foreign *store.Document // in place of the document: no proxy has written it
	writes  int             // those asked for
}

func newSharedStore() *sharedStore { return &sharedStore{docs: new(simredis.Documents)} }

// flush empties the store.
func (s *sharedStore) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.docs, s.foreign = new(simredis.Documents), nil
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
		s.docs, s.foreign, version = new(simredis.Documents), nil, 0
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

// A member is one proxy of a fleet, with the store's watcher, which tells of a
// document once.
type member struct {
	*Limits
	link    *link
	log     *testkit.Records
	skew    time.Duration // of its clock
	watched *store.Document
	changes int // calls of OnChange
}

// start makes it a proxy that knows nothing yet.
func (m *member) start(t *testing.T, now time.Time) {
	t.Helper()
	m.log, m.watched, m.changes = new(testkit.Records), nil, 0
	var err error
	if m.Limits, err = NewLimits(now, settings, m.link, m.log.Logger); err != nil {
		t.Fatal(err)
	}
	m.OnChange = func() { m.changes++ }
}

// watch does what the store's watcher does.
func (m *member) watch(now time.Time) {
	doc, err := m.link.Read(ConfigName)
	if err != nil || m.watched != nil && m.watched.Version == doc.Version && bytes.Equal(m.watched.Body, doc.Body) {
		return
	}
	m.watched = &doc
	m.Observe(now.Add(m.skew), doc)
}

// tell describes what is in force: "7 v3 store", and "!" behind it when Active
// says something else about the store than there is to say.
func (m *member) tell() string {
	a := m.Active()
	what := fmt.Sprint(a.Policy.Limit.Permits())
	if a.Source == SourceDefault {
		what = "settings"
	}
	text := fmt.Sprintf("%s v%d %v", what, a.Version, m.place)
	if a.Stored != (m.place == placeStore && a.Source != SourceDefault) {
		text += "!"
	}
	return text
}

// A fleet is several proxies of one store.
type fleet struct {
	t     *testing.T
	store *sharedStore
	names []string
	of    map[string]*member
	now   time.Time
}

// newFleet starts proxies with these names.
func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, store: newSharedStore(), names: names, of: make(map[string]*member), now: epoch}
	for _, name := range names {
		m := &member{link: &link{store: f.store}}
		m.start(t, epoch)
		f.of[name] = m
	}
	return f
}

// round is a second of all proxies.
func (f *fleet) round() {
	for _, name := range f.names {
		m := f.of[name]
		m.watch(f.now)
		m.Sync(f.now.Add(m.skew))
	}
}

// fixed is the configuration of scripts: n permits a second.
func fixed(n int64) limit.Config { return limit.Config{Algorithm: limit.Fixed, Limit: n, Window: 1} }

// play runs a script: steps parted by semicolons, a second apart.
func (f *fleet) play(script string) {
	f.t.Helper()
	for step := range strings.SplitSeq(script, ";") {
		f.now = f.now.Add(time.Second)
		words := strings.Fields(step)
		if m := f.of[words[0]]; m != nil {
			f.step(m, step, words[1:])
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

// step is what one proxy does, or is found to be.
func (f *fleet) step(m *member, step string, words []string) {
	f.t.Helper()
	now := f.now.Add(m.skew)
	number := func(i int) (n int64) {
		if i >= len(words) {
			return -1
		}
		if _, err := fmt.Sscan(words[i], &n); err != nil {
			f.t.Fatalf("%s: %v", step, err)
		}
		return n
	}
	var err error
	switch words[0] {
	case "set": // N [if-match]
		_, err = m.Apply(now, Change{Config: fixed(number(1)), Source: SourceAPI, IfMatch: number(2)})
	case "refused": // N if-match
		if _, refused := m.Apply(now, Change{Config: fixed(number(1)), Source: SourceAPI, IfMatch: number(2)}); !errors.Is(refused, ErrConflict) {
			f.t.Errorf("%s: %v", step, refused)
		}
	case "switch":
		_, err = m.Switch(now, limit.Token, -1)
	case "delete":
		_, err = m.Delete(now, -1)
	case "beaten": // by NAME's N
		other := f.of[words[1]]
		m.link.beaten = func() { f.step(other, step, []string{"set", words[2]}) }
	case "sync":
		m.Sync(now)
	case "restart":
		m.start(f.t, now)
	case "skew":
		m.skew = time.Duration(number(1)) * time.Second
	case "away":
		m.link.set(reachNone)
	case "deaf":
		m.link.set(reachLost)
	case "readonly":
		m.link.set(reachRead)
	case "late":
		m.link.set(reachLate)
	case "back":
		m.link.set(reachAll)
	case "is":
		if got, want := m.tell(), strings.Join(words[1:], " "); got != want {
			f.t.Errorf("%s: is %s", step, got)
		}
	case "logged": // number of lines that contain a word
		if got := strings.Count(strings.Join(m.log.Taken(), "\n"), words[2]); int64(got) != number(1) {
			f.t.Errorf("%s: %d times", step, got)
		}
	case "changes":
		if int64(m.changes) != number(1) {
			f.t.Errorf("%s: %d", step, m.changes)
		}
	default:
		f.t.Fatalf("no such step: %s", step)
	}
	if err != nil {
		f.t.Errorf("%s: %v", step, err)
	}
}
