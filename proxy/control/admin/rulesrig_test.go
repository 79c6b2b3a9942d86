package admin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// oneRule is a file with one rule that admits n in a minute.
func oneRule(id string, n int) string {
	return fmt.Sprintf("rules:\n  - id: %q\n    key: [ip]\n    limit: {algorithm: fixed, limit: %d, window: 60}\n", id, n)
}

const acmeOnly = `{"acme":{"algorithm":"fixed","limit":5,"window":1}}`

// ruleOptions is what the settings' defaults say.
func ruleOptions(t testing.TB) rule.Options {
	t.Helper()
	key := testkit.Must(keys.ParsePart("header:X-Client-Id"))(t)
	return rule.Options{ClientKey: key}
}

// A ruleRig is Rules with their files, store, log and endpoints.
type ruleRig struct {
	*Rules
	asker
	dir     string
	docs    store.DocumentStore
	log     *testkit.LogRecords
	changes int // calls of OnChange
}

// path is a file's path; none of the empty name.
func (r *ruleRig) path(name string) string {
	if name == "" {
		return ""
	}
	return filepath.Join(r.dir, name)
}

func (r *ruleRig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// startRules makes a rig over files with these names in its folder, which may hold
// something already.
func startRules(t *testing.T, dir string, files RuleFiles, docs store.DocumentStore) (*ruleRig, error) {
	t.Helper()
	r := &ruleRig{asker: asker{t: t}, dir: dir, docs: docs, log: new(testkit.LogRecords)}
	var err error
	r.Rules, err = NewRules(epoch, RuleFiles{r.path(files.Rules), r.path(files.Clients), ruleOptions(t)}, docs,
		r.log.Logger)
	if err != nil {
		return r, err
	}
	r.OnChange = func() { r.changes++ }
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Open: true}})
	r.Register(own)
	limits := testkit.Must(NewLimits(epoch, settings, docs, r.log.Logger))(t)
	RegisterReload(own, limits, r.Rules)
	r.handler = own
	return r, nil
}

func mustStartRules(t *testing.T, dir string, files RuleFiles, docs store.DocumentStore) *ruleRig {
	t.Helper()
	return testkit.Must(startRules(t, dir, files, docs))(t)
}

// tellRules describes what is in force: "a=7 b=5 v2 api stored clients=1".
func tellRules(a *ActiveRules) string {
	var words []string
	for i := range a.Set.Len() {
		word := a.Set.Rule(i).ID
		if l := a.Set.Rule(i).Limit; l.Algorithm != 0 {
			word += fmt.Sprintf("=%d", l.Limit)
		}
		words = append(words, word)
	}
	words = append(words, fmt.Sprintf("v%d %s", a.Version, a.Source))
	if a.Stored {
		words = append(words, "stored")
	}
	if a.Clients > 0 {
		words = append(words, fmt.Sprintf("clients=%d", a.Clients))
	}
	return strings.Join(words, " ")
}

func (r *ruleRig) inForce(want string) {
	r.t.Helper()
	if got := tellRules(r.Active()); got != want {
		r.t.Errorf("in force: %s, want %s", got, want)
	}
}

// logged fails unless exactly these lines were written since the last look; the
// rig's folder is left out of them.
func (r *ruleRig) logged(want ...string) {
	r.t.Helper()
	got := strings.ReplaceAll(strings.Join(r.log.Taken(), "\n"), r.dir+"/", "")
	if got != strings.Join(want, "\n") {
		r.t.Errorf("logged:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}
