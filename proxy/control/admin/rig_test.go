package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// epoch is when every test begins.
var epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// settings are the limit of the tests' settings.
var settings = limit.Config{Algorithm: limit.Fixed, Limit: 100, Window: 1, Capacity: 50, FillRate: 5}

// A rig is a Limits with its store, log and endpoints.
type rig struct {
	*Limits
	asker
	docs *simredis.DocumentStore
	log  *testkit.LogRecords
}

// start makes a rig over documents that may hold something already.
func start(t *testing.T, docs *simredis.DocumentStore) *rig {
	t.Helper()
	r := startOver(t, docs)
	r.docs = docs
	return r
}

// startOver makes a rig over a store of another kind.
func startOver(t *testing.T, docs store.DocumentStore) *rig {
	t.Helper()
	r := &rig{asker: asker{t: t}, log: new(testkit.LogRecords)}
	var err error
	if r.Limits, err = NewLimits(epoch, settings, docs, r.log.Logger); err != nil {
		t.Fatal(err)
	}
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Open: true}})
	r.Register(own)
	rules := testkit.Must(NewRules(epoch, RuleFiles{}, new(simredis.DocumentStore), r.log.Logger))(t)
	RegisterReload(own, r.Limits, rules)
	RegisterDecisions(own, func(id string) (any, bool) {
		return map[string]string{"rule": "global"}, id == "abc-0-1"
	})
	r.handler = own
	return r
}

// held is what docs holds.
func held(t *testing.T, docs *simredis.DocumentStore) store.Document {
	t.Helper()
	return testkit.Must(docs.Read(ConfigName))(t)
}

// put writes a document behind the rig's back.
func put(t *testing.T, docs *simredis.DocumentStore, body string) {
	t.Helper()
	if _, ok, err := docs.CompareAndSet(ConfigName, held(t, docs).Version, []byte(body)); !ok || err != nil {
		t.Fatalf("write a document: %t, %v", ok, err)
	}
}

// An asker sends requests to endpoints.
type asker struct {
	t       *testing.T
	handler http.Handler
}

// do sends a request; fields are names and values in turn.
func (a *asker) do(method, path, body string, fields ...string) *httptest.ResponseRecorder {
	a.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, req)
	return w
}

// logged fails unless exactly these lines were written since the last look.
func (r *rig) logged(want ...string) {
	r.t.Helper()
	got := r.log.Taken()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		r.t.Errorf("logged:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// inForce fails unless the limit in force is described so.
func (r *rig) inForce(want string) {
	r.t.Helper()
	a := r.Active()
	got := fmt.Sprintf("%s source=%s version=%d", a.Policy.Limit.Config(), a.Source, a.Version)
	if got != want {
		r.t.Errorf("in force: %s, want %s", got, want)
	}
}
