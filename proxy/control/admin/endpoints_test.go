package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store/simredis"
)

func TestEndpointsThatAccept(t *testing.T) {
	for _, test := range []struct {
		name, method, path, body string
		inForce, note            string
	}{
		{"fixed", "POST", "/config/limits", `{"algorithm":"fixed","limit":7,"window":60}`,
			"algorithm=fixed, limit=7, window=60 source=api version=1", ""},
		{"sliding", "POST", "/config/limits", `{"algorithm":"sliding","limit":500,"window":60}`,
			"algorithm=sliding, limit=500, window=60 source=api version=1", ""},
		{"token", "POST", "/config/limits", `{"algorithm":"token","capacity":50,"fillRate":5}`,
			"algorithm=token, capacity=50, fillRate=5 source=api version=1", ""},
		{"fractions", "POST", "/config/limits", `{"algorithm":"token","capacity":50,"fillRate":0.25}`,
			"algorithm=token, capacity=50, fillRate=0.25 source=api version=1", ""},
		{"what the advisor adds is ignored", "POST", "/config/limits",
			`{"algorithm":"fixed","limit":7,"window":60,"predictedRps":5,"validFor":30}`,
			"algorithm=fixed, limit=7, window=60 source=api version=1", ""},
		{"unknown fields are named", "POST", "/config/limits",
			`{"algorithm":"fixed","limit":7,"window":60,"validFor":30,"x":[{"y":1}],"limt":9}`,
			"algorithm=fixed, limit=7, window=60 source=api version=1", "unknown fields are ignored: x, limt"},
		{"ten of them", "POST", "/config/limits",
			`{"algorithm":"off","limit":7,"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1}`,
			"algorithm=off source=api version=1",
			"without effect until the algorithm is switched: limit; algorithm off uses no numbers; unknown fields are " +
				"ignored: a, b, c, d, e, f, g, h, i, j"},
		{"eleven of them", "POST", "/config/limits",
			`{"algorithm":"off","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1}`,
			"algorithm=off source=api version=1",
			"unknown fields are ignored: a, b, c, d, e, f, g, h, i, j and 1 more"},
		{"fields of other algorithms", "POST", "/config/limits",
			`{"algorithm":"fixed","limit":7,"window":60,"capacity":1,"fillRate":2}`,
			"algorithm=fixed, limit=7, window=60 source=api version=1",
			"without effect until the algorithm is switched: capacity, fillRate; algorithm fixed uses limit, window"},
		{"a burst of fixed", "POST", "/config/limits", `{"algorithm":"fixed","limit":7,"window":60,"burst":3}`,
			"algorithm=fixed, limit=7, window=60 source=api version=1",
			"without effect until the algorithm is switched: burst; algorithm fixed uses limit, window"},
		{"numbers of off", "POST", "/config/limits", `{"algorithm":"off","limit":7}`,
			"algorithm=off source=api version=1",
			"without effect until the algorithm is switched: limit; algorithm off uses no numbers"},
		{"pinned", "POST", "/config/limits?pin=true", `{"algorithm":"fixed","limit":7,"window":60}`,
			"algorithm=fixed, limit=7, window=60 source=api version=1", ""},
		{"algorithm in the body", "POST", "/config/algorithm", `{"algorithm":"token"}`,
			"algorithm=token, capacity=50, fillRate=5 source=api version=1", ""},
		{"algorithm in the query", "POST", "/config/algorithm?algorithm=sliding", ``,
			"algorithm=sliding, limit=100, window=1 source=api version=1", ""},
		{"delete", "DELETE", "/config/limits", ``, "algorithm=fixed, limit=100, window=1 source=default version=1", ""},
		{"reload", "POST", "/reload", ``, "algorithm=fixed, limit=100, window=1 source=default version=0", ""},
		{"read", "GET", "/config/limits", ``, "algorithm=fixed, limit=100, window=1 source=default version=0", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t, new(simredis.DocumentStore))
			w := r.do(test.method, test.path, test.body)
			if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("answered %d %s %s", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
			r.inForce(test.inForce)
			var got limitsAnswer
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			want := r.answerOf(r.Active())
			want.Note = test.note
			if got != *want {
				t.Errorf("answered %+v, in force is %+v", got, *want)
			}
		})
	}
}

func TestEndpointsThatRefuse(t *testing.T) {
	const limits, good = "/config/limits", `{"algorithm":"fixed","limit":7,"window":60}`
	for _, test := range []struct {
		name, method, path, body, ifMatch string
		status                            int
		at, sentence                      string // path, and a part of the sentence
	}{
		{"nothing", "POST", limits, ``, "", 400, "", "not valid JSON"},
		{"no JSON", "POST", limits, `limit=7`, "", 400, "", "not valid JSON"},
		{"no object", "POST", limits, `7`, "", 400, "", "must be"},
		{"text behind it", "POST", limits, good + `x`, "", 400, "", "JSON"},
		{"no algorithm", "POST", limits, `{"limit":7,"window":60}`, "", 400, "algorithm", "is missing"},
		{"unknown algorithm", "POST", limits, `{"algorithm":"magic"}`, "", 400, "algorithm",
			"must be one of fixed, sliding, token"},
		{"wrong case", "POST", limits, `{"Algorithm":"fixed","limit":7,"window":60}`, "", 400, "Algorithm", "algorithm"},
		{"given twice", "POST", limits, `{"algorithm":"fixed","limit":7,"limit":8,"window":60}`, "", 400, "limit", "twice"},
		{"no limit", "POST", limits, `{"algorithm":"fixed","window":60}`, "", 400, "limit", "is missing or 0"},
		{"no window", "POST", limits, `{"algorithm":"sliding","limit":7}`, "", 400, "window", "is missing or 0"},
		{"two faults", "POST", limits, `{"algorithm":"token"}`, "", 400, "capacity", "fillRate: is missing"},
		{"negative", "POST", limits, `{"algorithm":"fixed","limit":-7,"window":60}`, "", 400, "limit",
			"must be greater than 0, is -7"},
		{"half a permit", "POST", limits, `{"algorithm":"fixed","limit":7.5,"window":60}`, "", 400, "limit", "whole number"},
		{"a word", "POST", limits, `{"algorithm":"fixed","limit":"7","window":60}`, "", 400, "limit", "must be a"},
		{"too fine", "POST", limits, `{"algorithm":"fixed","limit":7,"window":0.0000015}`, "", 400, "window",
			"whole microseconds"},
		{"too large", "POST", limits, `{"algorithm":"sliding","limit":9007199254740992,"window":60}`, "", 400, "limit",
			"must be at most"},
		{"pin", "POST", limits + "?pin=perhaps", good, "", 400, "pin", "must be true or false"},
		{"a misspelt pin", "POST", limits + "?pinn=true", good, "", 400, "pinn",
			"is not a parameter of POST /config/limits; allowed: pin"},
		{"If-Match", "POST", limits, good, `"new"`, 400, "If-Match", "must be a version"},
		{"negative If-Match", "POST", limits, good, `"-1"`, 400, "If-Match", "must be a version"},
		{"another version", "POST", limits, good, `"41"`, 409, "", "changed meanwhile"},
		{"delete another version", "DELETE", limits, "", `"41"`, 409, "", "changed meanwhile"},
		{"delete what is no version", "DELETE", limits, "", `"new"`, 400, "If-Match", "must be a version"},
		{"switch another version", "POST", "/config/algorithm?algorithm=token", "", `"41"`, 409, "", "changed meanwhile"},
		{"switch what is no version", "POST", "/config/algorithm", `{"algorithm":"token"}`, `"new"`, 400, "If-Match",
			"must be a version"},
		{"switch to nothing", "POST", "/config/algorithm", `{}`, "", 400, "algorithm",
			"must be one of fixed, sliding, token"},
		{"switch to magic", "POST", "/config/algorithm?algorithm=magic", ``, "", 400, "algorithm", "must be one of"},
		{"switch without a body", "POST", "/config/algorithm", ``, "", 400, "", "not valid JSON"},
		{"switch and more", "POST", "/config/algorithm", `{"algorithm":"token","limit":1}`, "", 400, "limit", "unknown"},
		{"large body", "POST", limits, strings.Repeat(" ", 5<<20), "", 413, "", "larger than"},
		{"wrong method", "PUT", limits, good, "", 405, "", "PUT is not allowed here"},
		{"unknown place", "GET", "/config/limit", ``, "", 404, "", "not found: /config/limit"},
		{"unknown decision", "GET", "/config/decisions/zzz", ``, "", 404, "", "no such decision"},
		{"no decision", "GET", "/config/decisions/", ``, "", 404, "", "not found: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t, new(simredis.DocumentStore))
			before := r.Active()
			w := r.do(test.method, test.path, test.body, "If-Match", test.ifMatch)
			var got struct{ Error, Path string }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("answered %d %q: %v", w.Code, w.Body, err)
			}
			if w.Code != test.status || got.Path != test.at || !strings.Contains(got.Error, test.sentence) {
				t.Errorf("answered %d %s, want %d with the path %q and %q", w.Code, w.Body, test.status, test.at, test.sentence)
			}
			doc, log := held(t, r.docs), r.log.Taken()
			if r.Active() != before || doc.Version != 0 || len(log) > 0 {
				t.Errorf("in force is %+v, want %+v; stored version %d, want none; logged %q", r.Active(), before, doc.Version, log)
			}
		})
	}
}

// The whole JSON of GET /config/limits, field by field.
func TestLimitsAnswer(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	r.must(LimitChange{Config: token200, Source: SourceAdvisor, Pin: true, IfMatch: -1})
	w := r.do("GET", "/config/limits", "")
	const want = `{"algorithm":"token","capacity":200,"fillRate":50,"version":1,"source":"advisor","updatedAt":"2026-01-19T16:30:00Z","stored":true,"pinned":true}` + "\n"
	if w.Body.String() != want || w.Header().Get("ETag") != `"1"` {
		t.Errorf("answered %s with ETag %s, want %s", w.Body, w.Header().Get("ETag"), want)
	}
}

// Answers distinguish what is stored in this process only from what outlives it.
func TestStoredInMemory(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	rules := mustStartRules(t, t.TempDir(), RuleFiles{}, new(simredis.DocumentStore))
	r.InMemory, rules.InMemory = true, true
	for _, test := range []struct {
		w    *httptest.ResponseRecorder
		want string
	}{
		{r.do("GET", "/config/limits", ""), `"stored":false`},
		{r.do("POST", "/config/limits", `{"algorithm":"fixed","limit":7,"window":1}`), `"stored":"memory"`},
		{r.do("GET", "/config/limits", ""), `"stored":"memory"`},
		{r.do("DELETE", "/config/limits", ""), `"stored":false`},
		{rules.do("GET", "/config/rules", ""), `"stored":false`},
		{rules.do("PUT", "/config/rules", oneRule("a", 1)), `"stored":"memory"`},
		{rules.do("GET", "/config/rules", ""), `"stored":"memory"`},
	} {
		if body := test.w.Body.String(); test.w.Code != 200 || !strings.Contains(body, test.want) {
			t.Errorf("answered %d %s, want %s", test.w.Code, body, test.want)
		}
	}
}

// The version that GET tells in ETag is what If-Match wants.
func TestIfMatchOverHTTP(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	const body = `{"algorithm":"fixed","limit":7,"window":60}`
	for _, test := range []struct {
		ifMatch string
		status  int
	}{{`"0"`, 200}, {`"0"`, 409}, {`1`, 200}, {`*`, 200}, {``, 200}} {
		if w := r.do("POST", "/config/limits", body, "If-Match", test.ifMatch); w.Code != test.status {
			t.Errorf("If-Match %s: %d %s, want %d", test.ifMatch, w.Code, w.Body, test.status)
		}
	}
	etag := r.do("GET", "/config/limits", "").Header().Get("ETag")
	if w := r.do("POST", "/config/limits", body, "If-Match", etag); w.Code != 200 || w.Header().Get("ETag") != `"5"` {
		t.Errorf("If-Match %s: %d %s", etag, w.Code, w.Body)
	}
}

// A stored document that cannot be read is not the client's fault.
func TestReloadOfUnreadableDocument(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	put(t, r.docs, `{"config":{"algorithm":"fixed","limit":"many"}}`)
	w := r.do("POST", "/reload", "")
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "read ratelimiter:config: ") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

func TestDecision(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	if w := r.do("GET", "/config/decisions/abc-0-1", ""); w.Code != 200 || w.Body.String() != `{"rule":"global"}`+"\n" {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

// The endpoints' clock is the system's.
func TestUpdatedAtIsNow(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	before := time.Now()
	r.do("POST", "/config/algorithm?algorithm=token", "")
	if at := r.Active().UpdatedAt; at.Before(before) || at.After(time.Now()) {
		t.Errorf("updated at %v", at)
	}
	if got := r.Active().Config.Algorithm; got != limit.Token {
		t.Errorf("the algorithm is %v, want %v", got, limit.Token)
	}
}
