package admin

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// A state of an older or newer proxy does no harm: it is read as far as it is
// known, or not at all.
func TestReadState(t *testing.T) {
	const set = "http://127.0.0.1:1"
	for _, test := range []struct{ text, targets, fault string }{
		{"", "[]", ""},
		{`{"version":1,"settings":["http://127.0.0.1:1"]}`, "[]", ""},
		{`{"version":1,"settings":["http://127.0.0.1:1"],"targets":["http://127.0.0.1:2","http://127.0.0.1:3"]}`,
			"[http://127.0.0.1:2 http://127.0.0.1:3]", ""},
		// TARGET_URL has changed
		{`{"version":1,"settings":["http://127.0.0.1:9"],"targets":["http://127.0.0.1:2"]}`, "[]", ""},
		{`{"version":1,"settings":["http://127.0.0.1:1"],"targets":["http://127.0.0.1:2"],"moods":{"a":1}}`,
			"[http://127.0.0.1:2]", ""},
		{`{"version":2,"settings":["http://127.0.0.1:1"],"targets":["http://127.0.0.1:2"]}`, "[]",
			"version 2 is unknown, expected 1"},
		{`{"version":1,"settings":["http://127.0.0.1:1"],"targets":["ftp://x"]}`, "[]", "does not begin with http"},
		{`{"version":1,"settings":["http://127.0.0.1:1"],"targets":["http://a:1","http://a:1"]}`, "[]", "is listed twice"},
		{`{"version":1,"settings":["http://127.0.0.1:1"],"targets":["http://a:1"` + strings.Repeat(`,"http://a:1"`,
			targetsMax) + `]}`, "[]", "at most 1000 are allowed"},
		{`{"version":1,"sett`, "[]", "read the state"},
		{`["version"]`, "[]", "read the state"},
	} {
		s, err := ReadHandoverState([]byte(test.text))
		urls := []string{}
		if list, listErr := s.TargetsFor([]string{set}); err == nil {
			err = listErr
			for _, one := range list {
				urls = append(urls, one.URL)
			}
		}
		if fmt.Sprint(urls) != test.targets || (err == nil) != (test.fault == "") || err != nil &&
			!strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: targets %v, %v; want %s and %q", test.text, urls, err, test.targets, test.fault)
		}
	}
}

// Documents arrive with their versions; what is no document of the proxy's does
// not.
func TestStateOfDocuments(t *testing.T) {
	docs := new(simredis.DocumentStore)
	for version, body := range []string{"one", "two", "<three>"} {
		if _, written, err := docs.CompareAndSet(ConfigName, int64(version), []byte(body)); !written || err != nil {
			t.Fatal(written, err)
		}
	}
	if _, written, err := docs.CompareAndSet("other", 0, []byte("other")); !written || err != nil {
		t.Fatal(written, err)
	}
	text := testkit.Must(WriteHandoverState([]string{"http://127.0.0.1:1"}, nil, docs))(t)
	s := testkit.Must(ReadHandoverState(text))(t)
	s.Documents["foreign"] = store.Document{Version: 1}
	s.Documents[RulesName] = store.Document{Version: 1, Body: make([]byte, store.DocumentBytesMax+1)}
	next := new(simredis.DocumentStore)
	s.Restore(next)
	for name, want := range map[string]string{ConfigName: "3 <three>", RulesName: "0 ", "other": "0 ", "foreign": "0 "} {
		if doc, _ := next.Read(name); fmt.Sprintf("%d %s", doc.Version, doc.Body) != want {
			t.Errorf("%s is version %d, %q, want %s", name, doc.Version, doc.Body, want)
		}
	}
}

// Whatever bytes come, what is read of them is either usable or an error.
func FuzzReadState(f *testing.F) {
	f.Add([]byte(`{"version":1,"settings":["http://a:1"],"targets":["http://b:1"],"documents":{"ratelimiter:config":{"Body":"e30=","Version":3}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ReadHandoverState(text)
		if err != nil && (len(s.Targets) > 0 || len(s.Documents) > 0) {
			t.Errorf("%v, and %+v was read", err, s)
		}
		list, err := s.TargetsFor(s.Settings)
		if err == nil && len(list) != len(s.Targets) {
			t.Errorf("%d targets of %d were read", len(list), len(s.Targets))
		}
		docs := new(simredis.DocumentStore)
		s.Restore(docs)
		for name, doc := range s.Documents {
			if got, _ := docs.Read(name); got.Version != 0 && got.Version != doc.Version {
				t.Errorf("%s has version %d, was %d", name, got.Version, doc.Version)
			}
		}
	})
}
