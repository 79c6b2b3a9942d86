package admin

import (
	"regexp"
	"strings"
	"testing"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// newer is a document that a newer proxy has written.
const newer = `{"updatedAt":"2026-01-19T16:40:00Z","config":{"algorithm":"fixed","limit":9,"window":1,"shape":1},"source":"api","by":"me"}`

// A history is what happens to a fleet, and what it comes to.
type history struct{ name, script string }

// ofLimits are the steps and findings that only limits have.
var ofLimits = regexp.MustCompile("switch|delete|overrides|NEWER|{")

// Histories of two or three proxies, of limits and also of rules. "is 7 v1 store" says: 7
// permits a second are in force, or the rule 7, as version 1, which the store holds.
func TestHistories(t *testing.T) {
	for _, test := range []history{
		{"one after the other",
			"a set 7; round; b set 8; a is 7 v1 store; round; a is 8 v2 store; c is 8 v2 store; c changes 2"},
		{"at the same time", "a set 7; b set 8; a is 7 v1 store; round; a is 8 v2 store; b is 8 v2 store"},
		{"If-Match", "a refused 7 1; a set 7 0; round; b refused 8 0; b set 8 1; b is 8 v2 store"},
		{"a restart", "a set 7; a restart; a is 7 v1 store; a logged 1 Applied"},
		{"away, then back", "a away; a set 7; a is 7 v1 here; a logged 1 proxy; round; b is settings v0 nowhere; a back; " +
			"round; round; a is 7 v1 store; b is 7 v1 store; a changes 1; a logged 1 stored"},
		{"away, and others go on",
			"a set 6; round; a away; b set 7; b set 8; a set 9; a back; round; round; a is 9 v4 store; b is 9 v4 store"},
		{"read-only",
			"a readonly; a set 7; a set 8; round; a is 8 v2 here; a back; round; round; b is 8 v1 store; a is 8 v1 store"},
		{"away at the start", "a set 7; b away; b restart; b is settings v0 nowhere; b back; round; b is 7 v1 store"},

		{"nothing set, nothing written", "round; round; a is settings v0 nowhere; holds v0; a changes 0"},
		{"others follow",
			"a set 7; a is 7 v1 store; b is settings v0 nowhere; round; b is 7 v1 store; b changes 1; round; b changes 1"},
		{"followed without a watcher", "a set 7; b sync; b is 7 v1 store"},
		{"changes of several",
			"a set 7; round; b set 8; round; c set 9; round; a is 9 v3 store; b is 9 v3 store; c is 9 v3 store"},
		{"a switch is followed", "a switch; round; b is 50 v1 store"},
		{"a delete is followed",
			"a set 7; round; b delete; round; a is settings v2 store; b is settings v2 store; c is settings v2 store"},
		{"two at a time", "a beaten b 8; a set 7; a is 7 v2 store; b is 8 v1 store; round; b is 7 v2 store"},
		{"two at a time, one says upon what",
			"a set 1; round; a beaten b 8; a refused 7 1; a is 8 v2 store; b is 8 v2 store"},

		{"away at start", "a set 7; b away; b restart; b is settings v0 nowhere; b logged 0 WARN; round; b is settings v0 " +
			"nowhere; b back; round; b is 7 v1 store; b logged 1 overrides; round; b changes 1"},
		{"away at start, changed there",
			"a set 7; b away; b restart; b set 8; b is 8 v1 here; b back; round; b is 8 v2 store; b logged 0 overrides; " +
				"round; a is 8 v2 store"},
		{"away at start, changed elsewhere later",
			"b away; b restart; b set 8; a set 7; b back; round; b is 7 v1 store; b logged 0 overrides; a is 7 v1 store"},
		{"the mark is no surprise at start", "a delete; b restart; b is settings v1 store; b logged 0 overrides"},

		{"away: applied, written later",
			"a set 1; round; a away; a set 7; a is 7 v2 here; a changes 2; a logged 1 stored; round; a is 7 v2 here; a back; " +
				"round; a is 7 v2 store; a changes 2; a logged 1 stored; b is 7 v2 store"},
		{"away: several changes, one is written",
			"a set 1; a away; a set 7; a set 8; a switch; a set 9; a is 9 v5 here; a back; round; a is 9 v2 store; " +
				"round; b is 9 v2 store"},
		{"away: deleted", "a set 1; round; a away; a delete; a is settings v2 here; a back; round; a is settings v2 " +
			"store; b is settings v2 store"},
		{"away: another is later", "a set 1; round; a away; a set 7; b set 8; a back; round; a is 8 v2 store; a changes 3"},
		{"away: another is earlier",
			"a set 1; round; a away; b set 8; a set 7; a back; round; a is 7 v3 store; b is 7 v3 store"},
		{"away: both, apart", "a set 1; round; a away; b away; a set 7; b set 8; a back; round; a is 7 v2 store; b back; " +
			"round; round; a is 8 v3 store; b is 8 v3 store"},
		{"away: a change before it is back, on top of it",
			"a set 1; round; a away; a set 7; a back; a set 8; a is 8 v2 store"},
		{"away: a change before it is back, over a later one",
			"a set 1; round; a away; a set 7; b set 8; a back; a set 9; a is 9 v3 store; round; b is 9 v3 store"},
		{"away: emptied meanwhile", "a set 1; round; a away; a set 7; flush; a logged 1 stored; a back; round; a is 7 v1 " +
			"store; b is 7 v1 store; a logged 1 stored"},
		{"away: emptied, others write the earlier one again",
			"a set 1; round; a away; a set 7; flush; round; b is 1 v1 store; a back; round; round; a is 7 v2 " +
				"store; b is 7 v2 store"},
		{"away: a race when it is back",
			"a set 1; round; a away; a set 7; a back; a beaten b 8; a sync; a is 8 v2 store; b is 8 v2 store"},
		{"away and restarted: the change is lost",
			"a set 1; round; a away; a set 7; a restart; a is settings v0 nowhere; a back; round; a is 1 v1 store"},

		{"written, not answered", "a set 1; round; a deaf; a set 7; a is 7 v2 here; b sync; b is 7 v2 store; a back; a " +
			"sync; a is 7 v2 store; a changes 2"},
		{"written, not answered, changed again here", "a deaf; a set 7; a back; a set 8; a is 8 v2 store"},
		{"written, not answered, changed elsewhere",
			"a deaf; a set 7; b set 8; a back; round; a is 8 v2 store; b is 8 v2 store"},
		{"written again, not answered",
			"a set 6; a set 7; flush; a deaf; a sync; a is 7 v2 lost; b sync; b is 7 v1 store; a back; a sync; a is 7 v1 store"},

		{"emptied: one writes it again",
			"a set 6; a set 7; round; flush; round; a is 7 v1 store; b is 7 v1 store; c is 7 v1 store; a logged 1 lost; b " +
				"logged 0 lost; a changes 2; b changes 1"},
		{"emptied: the mark is written again",
			"a set 7; round; b delete; round; flush; round; a is settings v1 store; c restart; c is settings v1 store; a set " +
				"8; round; c is 8 v2 store"},
		{"emptied: who knows less is first",
			"a set 7; round; a away; b set 8; flush; a back; a sync; a is 7 v1 store; b sync; round; round; a is 8 v2 store; " +
				"b is 8 v2 store; c is 8 v2 store"},
		{"emptied: who knows a deleted one is first",
			"a set 7; round; a away; b delete; flush; a back; a sync; a is 7 v1 store; round; round; a is settings v2 store; " +
				"c is settings v2 store"},
		{"emptied: who knows more is first",
			"a set 7; round; a away; b set 8; flush; b sync; a back; round; a is 8 v1 store; b is 8 v1 store"},
		{"emptied: nobody knows anything", "a set 7; flush; a restart; round; a is settings v0 nowhere; holds v0"},
		{"emptied: a change at once", "a set 6; a set 7; round; flush; a set 8; a is 8 v1 store; round; b is 8 v1 store"},
		{"emptied: a change says upon what",
			"a set 6; a set 7; round; flush; a set 8 2; a is 8 v1 store; round; b is 8 v1 store; b changes 2"},
		{"emptied: another put it back, a change says upon what",
			"a set 6; a set 7; round; flush; b sync; a set 8 2; a is 8 v2 store"},
		{"emptied: a change knows what was written again", "a set 7; flush; a sync; a set 8; a is 8 v2 store; written 3"},
		{"emptied: others are always first",
			"a set 6; a set 7; flush; a late; a sync; a sync; a is 7 v2 lost; a logged 1 written; a back; " +
				"round; a is 7 v1 store"},
		{"others are always first", "a set 6; a set 7; a late; a refused 8 -1; a is 7 v2 store; round; a is 7 v2 store"},
		{"emptied: others are always first, and a change is refused",
			"a set 6; a set 7; flush; a late; a refused 8 -1; a is 7 v2 missing; a back; round; a is 7 v1 store"},
		{"emptied twice", "a set 7; round; flush; round; flush; round; a is 7 v1 store; c is 7 v1 store"},
		{"emptied and read-only", "a set 6; a set 7; flush; a readonly; a sync; a sync; a is 7 v2 lost; a logged 1 " +
			"written; a back; round; a is 7 v1 store; a logged 1 written; b is 7 v1 store"},
		{"emptied, read-only, a change",
			"a set 6; a set 7; flush; a readonly; a sync; a set 8; a is 8 v3 here; a back; round; a is 8 v1 " +
				"store; b is 8 v1 store"},
		{"emptied, read-only, then unreadable",
			"a set 7; flush; a readonly; a sync; garbage ?; a back; round; a is 7 v1 covered; holds ? v1; flush; " +
				"round; b is 7 v1 store"},
		{"an earlier backup is restored between two looks",
			"a set 7; round; a set 8; flush; b away; c sync; c is 7 v1 store; b back; a sync; round; round; a is 8 v2 store; " +
				"b is 8 v2 store; c is 8 v2 store"},

		{"unreadable: kept, warned about once",
			"a set 7; round; garbage ?; round; round; a is 7 v1 covered; b is 7 v1 covered; a logged 1 ignored; b logged 1 " +
				"ignored; holds ? v2"},
		{"unreadable: nothing known", "garbage ?; round; round; a is settings v0 unreadable; a logged 1 ignored; holds ? v1"},
		{"unreadable: the next change takes its place",
			"a set 7; round; garbage ?; round; b set 8; b is 8 v3 store; round; a is 8 v3 store; a changes 2"},
		{"unreadable: another version is another warning", "garbage ?; round; garbage ?; round; a logged 2 ignored"},
		{"unreadable: another one is another warning", "foreign ?; round; foreign !; round; a logged 2 ignored"},
		{"unreadable: again after something readable",
			"foreign ?; round; a set 7; round; foreign ?; round; a logged 2 ignored"},
		{"unreadable: again after nothing", "foreign ?; round; flush; round; foreign ?; round; a logged 2 ignored"},
		{"unreadable: a change waited for a store to write to",
			"a readonly; a set 7; round; a is 7 v1 here; garbage ?; a back; round; a is 7 v2 store"},
		{"unreadable: removed", "a set 7; round; garbage ?; round; flush; round; a is 7 v1 store; b is 7 v1 store"},
		{"unreadable: a change waited for the store",
			"a away; a set 7; garbage ?; round; a back; round; a is 7 v2 store; b is 7 v2 store"},
		{"unreadable: found by a change", "a set 7; round; garbage ?; a set 8; a is 8 v3 store"},
		{"unreadable: found by a change that says upon what",
			"a set 7; round; garbage ?; a refused 8 1; a is 7 v1 covered; holds ? v2"},
		{"a newer proxy's fields: ignored, warned about once, written again",
			`a set 7; round; garbage NEWER; round; a is 9 v2 store; b is 9 v2 store; flush; round; round; a is 9 v1 store; holds NEWER v1; b logged 1 config.shape`},
		{"a newer proxy's fields, again: no other warning",
			`garbage NEWER; round; a set 8; round; garbage NEWER; round; a logged 1 which`},
		{"foreign: kept, warned about once",
			"a set 7; round; foreign hello; round; round; a is 7 v1 covered; a logged 1 ignored; holds hello v-1"},
		{"foreign: the next change takes its place",
			"a set 7; round; foreign hello; round; b set 8; b is 8 v1 store; round; a is 8 v1 store; a changes 2"},
		{"foreign: changed while it is away",
			"foreign hello; round; a away; a set 7; a is 7 v1 blocked; a back; round; a is 7 v1 store; b is 7 v1 store"},
		{"foreign: even when it reads well",
			`foreign {"config":{"algorithm":"fixed","limit":1,"window":1},"source":"api","updatedAt":"2036-01-19T16:30:00Z"}; round; a is settings v0 unreadable; a logged 1 ignored`},

		{"a clock behind: the change on top is later",
			"a set 7; round; b skew -600; b set 8; round; a is 8 v2 store; flush; round; a is 8 v1 store; b is 8 v1 store"},
		{"a clock ahead: others change on top",
			"a skew 600; a set 7; round; b set 8; round; a is 8 v2 store; a set 9; round; b is 9 v3 store"},
		{"a clock far ahead is warned about",
			"a skew 7200; a set 7; round; round; b is 7 v1 store; b logged 1 clock; a logged 0 clock"},

		{"If-Match while away", "a set 7; a away; a set 8 1; a refused 9 1; a set 9 2; a is 9 v3 here"},
		{"If-Match when it is back",
			"a set 7; round; a away; a set 8; a back; round; a refused 9 1; a set 9 2; a is 9 v3 store"},
		{"If-Match against what was put in its place",
			"a set 7; round; a away; a set 8; b set 6; b set 5; a back; round; a is 5 v3 store; a refused 9 2; a set 9 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			newFleet(t, "a", "b", "c").play(strings.ReplaceAll(test.script, "NEWER", newer))
			if !ofLimits.MatchString(test.script) {
				newRuleFleet(t, "a", "b", "c").play(test.script)
			}
		})
	}
}

// What a stranger has copied is a stranger's, even if it is what is in force.
func TestForeignCopy(t *testing.T) {
	f := newFleet(t, "a")
	f.play("a set 7")
	f.store.replace(string(f.store.read().Body))
	f.play("round; a is 7 v1 covered; a logged 1 ignored; a set 8; a is 8 v1 store")
}

// What is observed is borrowed.
func TestObservedIsBorrowed(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.play("a set 7")
	doc := f.store.read()
	body := append([]byte(nil), doc.Body...)
	f.of["b"].Observe(epoch, store.Document{Body: body, Version: doc.Version})
	clear(body)
	f.play("flush; b sync; b is 7 v1 store; a sync; a is 7 v1 store; a restart; a is 7 v1 store")

	garbage := []byte("?")
	f.of["b"].Observe(epoch, store.Document{Body: garbage, Version: 2})
	clear(garbage)
	f.of["b"].Observe(epoch, store.Document{Body: []byte("?"), Version: 2})
	f.play("b logged 1 ignored")
}

// The hook is called when the change is in force.
func TestOnChange(t *testing.T) {
	f := newFleet(t, "a", "b")
	m := f.of["b"]
	var seen []limit.Algorithm
	m.OnChange = func() { seen = append(seen, m.Policy().Limit.Algorithm()) }
	f.play("a switch; b sync; b set 7; flush; b sync; b away; b switch; b refused 8 77; garbage ?; b " +
		"back; b sync; b delete")
	want := []limit.Algorithm{limit.Token, limit.Fixed, limit.Token, limit.Fixed}
	if len(seen) != len(want) {
		t.Fatalf("called with %v in force, want %v", seen, want)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Errorf("called with %v in force, want %v", seen, want)
		}
	}
}

// The endpoints answer as ever while the store is away; only what asks for the
// store itself fails.
func TestEndpointsWhileAway(t *testing.T) {
	k := &link{store: newSharedStore()}
	r := startOver(t, k)
	for _, test := range []struct {
		reach              reach
		method, path, body string
		status             int
		answer             string // a part
	}{
		{reachAll, "POST", "/config/limits", `{"algorithm":"fixed","limit":7,"window":1}`, 200, `"version":1,"source":"api"`},
		{reachNone, "POST", "/config/limits", `{"algorithm":"fixed","limit":8,"window":1}`, 200,
			`"limit":8,"window":1,"version":2,"source":"api"`},
		{reachNone, "GET", "/config/limits", "", 200, `"stored":false`},
		{reachNone, "POST", "/config/algorithm?algorithm=token", "", 200, `"version":3`},
		{reachNone, "POST", "/config/limits", `{"algorithm":"fixed"}`, 400, `"path":"limit"`},
		{reachNone, "POST", "/reload", "", 503, `"error":"the store is unavailable: no answer"`},
		{reachNone, "DELETE", "/config/limits", "", 200, `"version":4,"source":"default"`},
		{reachNone, "POST", "/config/limits?pin=true", `{"algorithm":"fixed","limit":9,"window":1}`, 200,
			`"stored":false,"pinned":true`},
		{reachAll, "POST", "/reload", "", 200, `"limit":9,"window":1,"version":2,"source":"api"`},
		{reachAll, "GET", "/config/limits", "", 200, `"stored":true,"pinned":true`},
	} {
		k.set(test.reach)
		w := r.do(test.method, test.path, test.body)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.answer) {
			t.Errorf("%s %s: %d %s, want %d with %s", test.method, test.path, w.Code, w.Body, test.status, test.answer)
		}
	}
}
