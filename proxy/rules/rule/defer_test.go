package rule_test

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/internal/data/strict"
	"weir/internal/test/testkit"
	"weir/proxy/rules/rule"
)

// A rule may have its refused requests kept if there is a queue. What another proxy has
// stored holds here as far as it can.
func TestDefer(t *testing.T) {
	t.Parallel()
	text := "rules:\n  - {id: a, " + fixed + "}\n  - {id: b, " + fixed + ", defer: {for: 60}}\n"
	_, err := rule.Read([]byte(text), rule.Options{})
	if err == nil || !strings.Contains(err.Error(), "rules[1].defer: DEFER_URL is not set") {
		t.Errorf("without a queue: %v", err)
	}
	s := read(t, text, rule.Options{Defers: true})
	if d := s.Rule(1).Defer; s.Rule(0).Defer != nil || d == nil || d.For != 60 || d.PerKey != 1000 {
		t.Errorf("the rules have %+v, %+v", s.Rule(0).Defer, d)
	}
	again := testkit.Must(json.Marshal(s))(t)
	if s := read(t, string(again), rule.Options{Defers: true}); s.Rule(1).Defer == nil || s.Rule(1).Defer.For != 60 {
		t.Errorf("%s has lost what it says", again)
	}
	s = read(t, text, rule.Options{Unknown: func(strict.Fault) {}})
	if notes := s.Notes(); s.Rule(1).Defer != nil || len(notes) != 1 || notes[0].Path != "rules[1].defer" {
		t.Errorf("another proxy's rule: %+v, notes %v", s.Rule(1).Defer, notes)
	}
	s = read(t, "rules:\n  - {id: a, "+fixed+", mode: shadow, defer: {}}\n", rule.Options{Defers: true})
	if notes := s.Notes(); len(notes) != 1 || notes[0].Path != "rules[0].defer" {
		t.Errorf("a rule in shadow: notes %v", notes)
	}
}

// Clients can be called back only where there are hosts for that.
func TestDeferCallback(t *testing.T) {
	t.Parallel()
	const text = "rules:\n  - {id: a, limit: {algorithm: fixed, limit: 1, window: 1}, defer: {callback: true}}\n"
	_, err := rule.Read([]byte(text), rule.Options{Defers: true})
	if err == nil || !strings.Contains(err.Error(), "rules[0].defer.callback: DEFER_CALLBACK_HOSTS is not set") {
		t.Errorf("without hosts: %v", err)
	}
	if d := read(t, text, rule.Options{Defers: true, Callbacks: true}).Rule(0).Defer; d == nil || !d.Callback {
		t.Errorf("with hosts: %+v", d)
	}
	s := read(t, text, rule.Options{Defers: true, Unknown: func(strict.Fault) {}})
	if notes := s.Notes(); len(notes) != 1 || notes[0].Path != "rules[0].defer.callback" {
		t.Errorf("another proxy's rule: %v", notes)
	}
}
