package admin

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/data/strict"
	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// change is what a client of the API sends.
func change(c limit.Config) LimitChange {
	return LimitChange{Config: c, Source: SourceAPI, IfMatch: -1}
}

var (
	sliding500 = limit.Config{Algorithm: limit.Sliding, Limit: 500, Window: 60}
	token200   = limit.Config{Algorithm: limit.Token, Capacity: 200, FillRate: 50}
)

// must applies a change that cannot fail.
func (r *rig) must(ch LimitChange) *ActiveLimit {
	r.t.Helper()
	return testkit.Must(r.Apply(epoch, ch))(r.t)
}

func TestStartsWithTheSettings(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	r.inForce("algorithm=fixed, limit=100, window=1 source=default version=0")
	r.logged()
	if a := r.Active(); a.Stored || a.Pinned || !a.UpdatedAt.Equal(epoch) {
		t.Errorf("stored %t, pinned %t, updated at %v", a.Stored, a.Pinned, a.UpdatedAt)
	}
	if doc := held(t, r.docs); doc.Version != 0 {
		t.Errorf("the store has version %d, want none: the settings are not written", doc.Version)
	}
}

func TestFaultySettingsDoNotStart(t *testing.T) {
	_, err := NewLimits(epoch, limit.Config{Algorithm: limit.Fixed}, new(simredis.DocumentStore),
		new(testkit.LogRecords).Logger)
	if err == nil {
		t.Error("a limit without numbers was taken")
	}
}

// The log lines are those of contracts, to the letter.
func TestApply(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	if a := r.must(change(sliding500)); !a.Stored || a != r.Active() {
		t.Errorf("stored %t, in force %t", a.Stored, a == r.Active())
	}
	r.logged("INFO ConfigController - Applied new config: algorithm=sliding, limit=500, window=60, source=api",
		"INFO RateLimiter - Switched rate-limiting algorithm from FixedWindow to SlidingWindow")
	r.inForce("algorithm=sliding, limit=500, window=60 source=api version=1")

	r.must(LimitChange{Config: token200, Source: SourceAdvisor, IfMatch: -1})
	r.logged("INFO ConfigController - Applied new config: algorithm=token, capacity=200, fillRate=50, source=advisor",
		"INFO RateLimiter - Switched rate-limiting algorithm from SlidingWindow to TokenBucket")
	r.inForce("algorithm=token, capacity=200, fillRate=50 source=advisor version=2")

	r.must(change(limit.Config{Algorithm: limit.Token, Capacity: 200, FillRate: 0.5}))
	r.logged("INFO ConfigController - Applied new config: algorithm=token, capacity=200, fillRate=0.5, source=api")
	r.inForce("algorithm=token, capacity=200, fillRate=0.5 source=api version=3")
}

func TestFaultyChangeChangesNothing(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	before := r.must(change(sliding500))
	r.log.Taken()
	for _, test := range []struct {
		config limit.Config
		path   string
	}{
		{limit.Config{}, "algorithm"},
		{limit.Config{Algorithm: limit.Fixed, Window: 1}, "limit"},
		{limit.Config{Algorithm: limit.Fixed, Limit: 1}, "window"},
		{limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 0.0000015}, "window"},
		{limit.Config{Algorithm: limit.Token, FillRate: 1}, "capacity"},
		{limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: -1}, "fillRate"},
	} {
		_, err := r.Apply(epoch, change(test.config))
		if e, ok := errors.AsType[strict.Fault](err); !ok || e.Path != test.path || e.Message == "" {
			t.Errorf("%+v: %v, want an error with the path %s", test.config, err, test.path)
		}
	}
	if doc := held(t, r.docs); r.Active() != before || doc.Version != 1 {
		t.Errorf("a faulty change: in force is %+v, want %+v; stored version %d, want 1", r.Active(), before, doc.Version)
	}
	r.logged()
}

func TestIfMatch(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	for _, test := range []struct {
		ifMatch int64
		ok      bool
	}{{0, true}, {0, false}, {2, false}, {1, true}, {1, false}, {-1, true}, {3, true}} {
		before := r.Active()
		_, err := r.Apply(epoch, LimitChange{Config: sliding500, Source: SourceAPI, IfMatch: test.ifMatch})
		switch {
		case test.ok && err != nil:
			t.Errorf("If-Match %d at version %d: %v", test.ifMatch, before.Version, err)
		case !test.ok && (!errors.Is(err, ErrConflict) || r.Active() != before):
			t.Errorf("If-Match %d at version %d: %v", test.ifMatch, before.Version, err)
		}
	}
}

func TestPin(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	ch := change(sliding500)
	ch.Pin = true
	if !r.must(ch).Pinned {
		t.Error("not pinned")
	}
	if a, err := r.Switch(epoch, limit.Token, -1); err != nil || !a.Pinned {
		t.Errorf("a switch of the algorithm ended the pin: %v", err)
	}
	if again := start(t, r.docs); !again.Active().Pinned {
		t.Error("the pin is not stored")
	}
	if r.must(change(sliding500)).Pinned {
		t.Error("a change without pin left it")
	}
	r.must(ch)
	if a, err := r.Delete(epoch, -1); err != nil || a.Pinned {
		t.Errorf("delete left the pin: %v", err)
	}
}

func TestSwitchUsesLastKnownValues(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	for _, step := range []struct {
		to   limit.Algorithm
		want string
	}{
		{limit.Token, "algorithm=token, capacity=50, fillRate=5 source=api version=1"}, // the settings'
		{limit.Sliding, "algorithm=sliding, limit=100, window=1 source=api version=2"},
	} {
		if _, err := r.Switch(epoch, step.to, -1); err != nil {
			t.Fatal(err)
		}
		r.inForce(step.want)
	}
	r.logged("INFO ConfigController - Applied new config: algorithm=token, capacity=50, fillRate=5, source=api",
		"INFO RateLimiter - Switched rate-limiting algorithm from FixedWindow to TokenBucket",
		"INFO ConfigController - Applied new config: algorithm=sliding, limit=100, window=1, source=api",
		"INFO RateLimiter - Switched rate-limiting algorithm from TokenBucket to SlidingWindow")

	known := sliding500
	known.Capacity = 7 // of another algorithm: kept for later
	r.must(change(known))
	if _, err := r.Switch(epoch, limit.Token, -1); err != nil {
		t.Fatal(err)
	}
	r.inForce("algorithm=token, capacity=7, fillRate=5 source=api version=4")
	again := start(t, r.docs) // the values survive a restart
	if _, err := again.Switch(epoch, limit.Fixed, -1); err != nil {
		t.Fatal(err)
	}
	again.inForce("algorithm=fixed, limit=500, window=60 source=api version=5")
}

// Values kept for a later switch are looked at when it comes.
func TestSwitchToFaultyValues(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	known := sliding500
	known.FillRate = 0.00000001
	before := r.must(change(known))
	_, err := r.Switch(epoch, limit.Token, -1)
	if e, ok := errors.AsType[strict.Fault](err); !ok || e.Path != "fillRate" || r.Active() != before {
		t.Errorf("switched to what cannot be held exactly: %v", err)
	}
}

func TestDelete(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	r.must(change(token200))
	r.log.Taken()
	a, err := r.Delete(epoch.Add(time.Minute), -1)
	if err != nil || a.Stored {
		t.Errorf("stored %t, %v", a.Stored, err)
	}
	r.inForce("algorithm=fixed, limit=100, window=1 source=default version=2")
	r.logged("INFO ConfigController - Applied new config: algorithm=fixed, limit=100, window=1, source=default",
		"INFO RateLimiter - Switched rate-limiting algorithm from TokenBucket to FixedWindow")
	if !strings.Contains(string(held(t, r.docs).Body), `"deleted":true`) {
		t.Errorf("no mark is stored: %s", held(t, r.docs).Body)
	}
	again := start(t, r.docs) // the mark is followed, and is nothing to warn of
	again.inForce("algorithm=fixed, limit=100, window=1 source=default version=2")
	again.logged("INFO ConfigController - Applied new config: algorithm=fixed, limit=100, window=1, source=default")
}

func TestStoredGoesBeforeTheSettings(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	if _, err := r.Apply(epoch.Add(time.Hour), change(token200)); err != nil {
		t.Fatal(err)
	}
	again := start(t, r.docs)
	again.inForce("algorithm=token, capacity=200, fillRate=50 source=api version=1")
	again.logged("INFO ConfigController - Applied new config: algorithm=token, capacity=200, fillRate=50, source=api",
		"INFO RateLimiter - Switched rate-limiting algorithm from FixedWindow to TokenBucket",
		"WARN ConfigController - Stored config overrides the settings source=api remedy=DELETE /config/limits")
	if a := again.Active(); !a.Stored || !a.UpdatedAt.Equal(epoch.Add(time.Hour)) {
		t.Errorf("stored %t, updated at %v", a.Stored, a.UpdatedAt)
	}
}

func TestReloadFollowsOthers(t *testing.T) {
	docs := new(simredis.DocumentStore)
	one, other := start(t, docs), start(t, docs)
	if a, err := one.Reload(epoch); err != nil || a != one.Active() {
		t.Errorf("nothing to reload: %v", err)
	}
	other.must(change(sliding500))
	one.inForce("algorithm=fixed, limit=100, window=1 source=default version=0")
	if _, err := one.Reload(epoch); err != nil {
		t.Fatal(err)
	}
	one.inForce("algorithm=sliding, limit=500, window=60 source=api version=1")
	one.log.Taken()
	if _, err := one.Reload(epoch); err != nil {
		t.Fatal(err)
	}
	one.logged() // the same again is no change
}

// Another proxy wrote first: without If-Match this change comes on top, with
// one it is refused, and both know then what the other wrote.
func TestAnotherWriterWasFirst(t *testing.T) {
	docs := new(simredis.DocumentStore)
	one, other := start(t, docs), start(t, docs)
	known := sliding500
	known.Capacity = 9
	other.must(change(known))
	one.must(change(limit.Config{Algorithm: limit.Fixed, Limit: 3, Window: 4}))
	one.inForce("algorithm=fixed, limit=3, window=4 source=api version=2")
	if c := one.Active().Config; c.Capacity != 9 {
		t.Errorf("the other's capacity was lost: %+v", c)
	}
	_, err := other.Apply(epoch, LimitChange{Config: sliding500, Source: SourceAPI, IfMatch: 1})
	if !errors.Is(err, ErrConflict) {
		t.Errorf("the second of two writers: %v", err)
	}
	other.inForce("algorithm=fixed, limit=3, window=4 source=api version=2")
}

func TestUnreadableDocumentIsIgnoredAndKept(t *testing.T) {
	for _, test := range []struct{ body, reason string }{
		{`{"config"`, "not valid JSON"},
		{`{"config":{"algorithm":"fixed","limit":0,"window":1},"source":"api","updatedAt":"2026-01-19T16:30:00Z"}`,
			"limit: is missing or 0"},
		{`{"config":{"algorithm":"magic"},"source":"api","updatedAt":"2026-01-19T16:30:00Z"}`,
			"config.algorithm: must be one of"},
		{`{"config":{"algorithm":"fixed","limits":1}}`, "limit: is missing"},
	} {
		docs := new(simredis.DocumentStore)
		put(t, docs, test.body)
		r := start(t, docs)
		r.inForce("algorithm=fixed, limit=100, window=1 source=default version=0")
		if got := string(held(t, docs).Body); got != test.body {
			t.Errorf("the document was changed to %s", got)
		}
		for _, look := range []func(){func() {}, func() { _, _ = r.Reload(epoch) }} {
			look()
			lines := r.log.Taken()
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "WARN ConfigController - Stored config ignored") ||
				!strings.Contains(lines[0], "read ratelimiter:config: ") {
				t.Errorf("%s: logged %q", test.body, lines)
			}
		}
		if _, err := r.Reload(epoch); err == nil || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: reload says %v, want something with %q", test.body, err, test.reason)
		}
		r.must(change(sliding500)) // whoever writes knows better
		r.inForce("algorithm=sliding, limit=500, window=60 source=api version=2")
	}
}

// Many writers at a time: every change gets a version of its own.
func TestConcurrentWriters(t *testing.T) {
	docs := new(simredis.DocumentStore)
	one, other := start(t, docs), start(t, docs)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			r := []*rig{one, other}[i%2]
			for range 25 {
				if _, err := r.Apply(epoch, change(sliding500)); err != nil && !errors.Is(err, ErrConflict) {
					t.Error(err)
				}
				if n := r.Policy().Limit.Permits(); n != 500 && n != 100 {
					t.Errorf("a policy of %d permits", n)
				}
			}
		})
	}
	writers.Wait()
	if v := held(t, docs).Version; v < 100 || v > 200 {
		t.Errorf("%d versions of 200 changes", v)
	}
}

// A document that says nothing of an algorithm leaves the settings' values for
// it.
func TestSwitchUsesTheSettingsValues(t *testing.T) {
	docs := new(simredis.DocumentStore)
	put(t, docs, `{"config":{"algorithm":"fixed","limit":3,"window":4},"source":"api","updatedAt":"2026-01-19T16:30:00Z"}`)
	r := start(t, docs)
	if _, err := r.Switch(epoch, limit.Token, -1); err != nil {
		t.Fatal(err)
	}
	r.inForce("algorithm=token, capacity=50, fillRate=5 source=api version=2")
}

// If the stored document is unreadable, a change with If-Match fails with an error that says so.
func TestIfMatchOverUnreadableDocument(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	r.must(change(sliding500))
	put(t, r.docs, `?`)
	_, err := r.Apply(epoch, LimitChange{Config: token200, Source: SourceAPI, IfMatch: 1})
	if !errors.Is(err, ErrConflict) || string(held(t, r.docs).Body) != `?` {
		t.Errorf("written over it: %v", err)
	}
	r.inForce("algorithm=sliding, limit=500, window=60 source=api version=1")
}

// The limit of the settings may change. It is in force while no change is, also after one was deleted.
func TestDefault(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	put := func(cfg limit.Config) {
		t.Helper()
		if err := r.Default(cfg); err != nil {
			t.Error(err)
		}
	}
	put(token200)
	r.inForce("algorithm=token, capacity=200, fillRate=50 source=default version=0")
	if err := r.Default(limit.Config{Algorithm: limit.Token}); err == nil {
		t.Error("a limit without numbers was taken")
	}
	r.must(change(sliding500))
	put(limit.Config{Algorithm: limit.Off})
	r.inForce("algorithm=sliding, limit=500, window=60 source=api version=1")
	if _, err := r.Limits.Delete(epoch, -1); err != nil {
		t.Error(err)
	}
	r.inForce("algorithm=off source=default version=2")
	put(token200)
	r.inForce("algorithm=token, capacity=200, fillRate=50 source=default version=2")
}

// A sidecar reads the limit that its master shows.
func TestReadLimit(t *testing.T) {
	for _, cfg := range []limit.Config{sliding500, token200, {Algorithm: limit.Off}} {
		a := ActiveLimit{Config: cfg}
		got, err := ReadLimit(store.Document{Version: 1, Body: a.AppendJSON(nil)})
		if err != nil || got != cfg {
			t.Errorf("%+v is read as %+v, %v", cfg, got, err)
		}
	}
	for _, body := range []string{"", "{}", `{"algorithm":"fixed","limit":0}`, `{"algorithm":"new"}`} {
		if cfg, err := ReadLimit(store.Document{Version: 1, Body: []byte(body)}); err == nil {
			t.Errorf("%q is read as %+v", body, cfg)
		}
	}
}
