package adaptive

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// Whatever an advisor does that is not an answer: the last limits stay.
func TestNonsense(t *testing.T) {
	const good = `{"algorithm":"fixed","limit":120,"window":1}`
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		t.Error("a redirect was followed")
	}))
	defer elsewhere.Close()
	reply := func(status int, kind, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const kind = "application/json"
	for _, test := range []struct {
		name  string
		reply func(http.ResponseWriter, *http.Request)
		why   string
	}{
		{"no JSON", reply(200, kind, "hello"), "understand the answer"},
		{"nothing", reply(200, kind, ""), "understand the answer"},
		{"an array", reply(200, kind, "[]"), "must be an object"},
		{"NaN", reply(200, kind, `{"algorithm":"token","capacity":5,"fillRate":NaN}`), "understand the answer"},
		{"beyond all numbers", reply(200, kind, `{"algorithm":"token","capacity":5,"fillRate":1e999}`), "fillRate"},
		{"half a permit", reply(200, kind, `{"algorithm":"fixed","limit":10.5,"window":1}`), "limit: must be a whole number"},
		{"below zero", reply(200, kind, `{"algorithm":"fixed","limit":-100,"window":1}`), "limit: must be greater than 0"},
		{"zero", reply(200, kind, `{"algorithm":"fixed","limit":0,"window":1}`), "limit: is missing or 0"},
		{"no such algorithm", reply(200, kind, `{"algorithm":"magic","limit":1,"window":1}`), "algorithm: must be one of"},
		{"no algorithm", reply(200, kind, `{}`), "algorithm: is missing"},
		{"another kind", reply(200, "text/html", good), `must be application/json, is "text/html"`},
		{"no kind", reply(200, "", good), "must be application/json"},
		{"created", reply(201, kind, good), "answered 201"},
		{"a fault", reply(500, kind, `{"error":"too`+"\n"+`bad"}`), `answered 500 {"error":"too bad"}`},
		{"refused", reply(400, kind, `{"error":"older"}`), `answered 400 {"error":"older"}`},
		{"guarded", reply(403, kind, `{"error":"no"}`),
			`set ADVISOR_TOKEN to the advisor's ADMIN_TOKEN: it answered 403 {"error":"no"}`},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "answered 307"},
		{"too long", reply(200, kind, good+strings.Repeat(" ", answerMax)), "longer than 65536 bytes"},
		{"without end", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			for _, err := io.WriteString(w, good); err == nil; _, err = w.Write(bytes.Repeat([]byte(" "), 4096)) {
			}
		}, "longer than 65536 bytes"},
		{"a long head", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 2*headersMax))
			reply(200, kind, good)(w, r)
		}, "server response headers exceeded"},
		{"closing", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"closing half way", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, good)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "read the answer: unexpected EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := begun(t)
			r.oracle.does(test.reply)
			r.turns(Failed, "fixed 100/1 default", test.why)
			if lines := r.log.Taken(); len(lines) != 2 ||
				!strings.HasPrefix(lines[1], "WARN Adaptive - AI module unreachable, continuing with last known limits reason=") {
				t.Errorf("logged %q", lines)
			}
			r.oracle.says(good)
			r.turns(Applied, "fixed 120/1 advisor", "")
		})
	}
}

// The advisor is shown the token, if there is one.
func TestToken(t *testing.T) {
	for _, test := range []struct{ token, want string }{{"s3cr3t", "Bearer s3cr3t"}, {"", ""}} {
		r := start(t, func(c *Config) { c.Settings.Token = test.token })
		shown := make(chan string, 1)
		r.oracle.does(func(_ http.ResponseWriter, q *http.Request) { shown <- q.Header.Get("Authorization") })
		r.turn()
		if got := <-shown; got != test.want {
			t.Errorf("with the token %q the advisor is shown %q", test.token, got)
		}
	}
}

// An advisor that answers too late, not at all, or only in part.
func TestHanging(t *testing.T) {
	for name, begin := range map[string]bool{"no answer": false, "half an answer": true} {
		r := start(t, func(c *Config) { c.Settings.Timeout = 50 * time.Millisecond })
		r.oracle.does(func(w http.ResponseWriter, q *http.Request) {
			if begin {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, "{")
				w.(http.Flusher).Flush()
			}
			<-q.Context().Done()
		})
		if l := r.turn(); l.Result != Failed || !strings.Contains(l.Reason, "no answer within 50ms") {
			t.Errorf("%s: %v %s", name, l.Result, l.Reason)
		}
	}
}

// One line is logged when the advisor becomes unavailable, one when it has been so for long, and
// one when it is back.
func TestOutage(t *testing.T) {
	r := begun(t)
	r.oracle.says(`{"algorithm":"fixed","limit":120,"window":1,"predictedRps":90}`)
	r.turn()
	r.log.Taken()
	r.client.url = "http://" + testkit.FreeAddr(t) + "/v1/limit-config"
	const why = "connection refused"
	r.turns(Failed, "fixed 120/1 advisor", why)
	reason := r.read().lines[1].Reason
	r.logged("WARN Adaptive - AI module unreachable, continuing with last known limits reason=" + reason)
	r.turns(Failed, "fixed 120/1 advisor", why)
	r.logged()
	r.sampled("ratelimiter_adaptive_stale 0")
	r.turns(Failed, "fixed 120/1 advisor", why)
	r.logged("WARN Adaptive - AI recommendations are stale failed=3 reason=" + reason)
	r.turns(Failed, "fixed 120/1 advisor", why)
	r.logged()
	r.sampled("ratelimiter_adaptive_stale 1", `ratelimiter_adaptive_updates_total{result="failed"} 4`,
		"ratelimiter_adaptive_predicted_rps 90")
	if got := r.told(); got["stale"] != true || got["failures"] != 4.0 || got["result"] != "failed" ||
		got["recommendation"].(map[string]any)["limit"] != 120.0 {
		t.Errorf("told %v", got)
	}
	again := newOracle(t)
	r.client.url = again.URL + "/v1/limit-config"
	again.says(`{"algorithm":"off"}`) // refused by the guard, but an answer
	r.turns(Refused, "fixed 120/1 advisor", "off")
	r.logged("INFO Adaptive - AI module reachable again failed=4")
	r.sampled("ratelimiter_adaptive_stale 0")
}

// What comes with a limit may be nonsense: it is left out.
func TestAnswers(t *testing.T) {
	const head = `{"algorithm":"token","capacity":20,"fillRate":10`
	for _, test := range []struct{ body, want string }{
		{head + `,"predictedRps":12.5,"validFor":60,"confidence":0.5,"reason":"grows"}`, "12.5 60 0.5 grows"},
		{head + `}`, "0 0 0 "},
		{head + `,"predictedRps":-1,"validFor":-1,"confidence":-1}`, "0 0 0 "},
		{head + `,"predictedRps":"many","validFor":{},"confidence":[1],"reason":7}`, "0 0 0 "},
		{head + `,"predictedRps":0,"validFor":0.5}`, "0 0.5 0 "},
		{head + `,"predictedRps":1e13,"validFor":86401}`, "0 0 0 "},
		{head + `,"predictedRps":1e300,"validFor":1e300,"confidence":1.01,"reason":null}`, "0 0 0 "},
		{head + `,"reason":{"codes":["need","probe"],"text":"demand grows"}}`, "0 0 0 need, probe, demand grows"},
		{head + `,"reason":"a\nb\u001b[31m\u202ec"}`, "0 0 0 a b [31m c"},
		{head + `,"reason":"` + strings.Repeat("é", 200) + `"}`, "0 0 0 " + strings.Repeat("é", textMax/2)},
		{head + `,"limit":5,"forecast":{"at":[1,2]},"unknown":[{}]}`, "0 0 0 "},
	} {
		r, err := readAnswer([]byte(test.body))
		if err != nil {
			t.Errorf("%s: %v", test.body, err)
			continue
		}
		if got := fmt.Sprintf("%v %v %v %s", r.PredictedRPS, r.ValidFor, r.Confidence, r.Reason); got != test.want ||
			r.Capacity != 20 || r.FillRate != 10 {
			t.Errorf("%s: read %s, want %s", test.body, got, test.want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(token50))
	f.Add([]byte(`{"algorithm":"fixed","limit":1,"window":1,"reason":[["a"],{"b":"c"}],"predictedRps":1e400}`))
	f.Add([]byte(`{"algorithm":"gcra","burst":-0,"validFor":NaN}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := readAnswer(body)
		if err != nil {
			return
		}
		if !(r.PredictedRPS >= 0 && r.ValidFor >= 0 && r.Confidence >= 0 && r.Confidence <= 1) ||
			len(r.Reason) > textMax || strings.ContainsAny(r.Reason, "\r\n\t\x00") {
			t.Errorf("%q: read %+v", body, r)
		}
	})
}

// The bound of the gates' limits that an answer has is put in force while the proxy is young,
// also if it follows another one, and dropped when the advisor has been silent for too long.
func TestBoundOfTheGates(t *testing.T) {
	const limit = `{"algorithm":"fixed","limit":100,"window":1`
	for _, test := range []struct {
		name    string
		mode    string
		answers []string // empty: none
		want    string
	}{
		{"a bound", "true", []string{limit + `,"gate":{"max":32}}`}, "[32]"},
		{"an advisor that knows of none", "true", []string{limit + `}`}, "[]"},
		{"answers without it keep it", "true", []string{limit + `,"gate":{"max":32}}`, limit + `}`}, "[32]"},
		{"fields of a later version", "true", []string{limit + `,"gate":{"max":32,"min":3}}`}, "[32]"},
		{"nonsense", "true", []string{limit + `,"gate":5}`, limit + `,"gate":{"max":0}}`, limit + `,"gate":{"max":"9"}}`,
			limit + `,"gate":{"max":1e9}}`, limit + `,"gate":null}`}, "[]"},
		{"silence", "true", []string{limit + `,"gate":{"max":32}}`, "", "", "", ""}, "[32 0]"},
		{"short silence", "true", []string{limit + `,"gate":{"max":32}}`, "", "", limit + `,"gate":{"max":40}}`}, "[32 40]"},
		{"for a minute", "true", slices.Repeat([]string{limit + `,"gate":{"max":32}}`}, 40), "[32 0]"},
		{"shadow", "shadow", []string{limit + `,"gate":{"max":32}}`, "", "", ""}, "[]"},
	} {
		r := start(t, func(c *Config) {
			c.Settings.Mode, c.Settings.Interval = test.mode, 2*time.Second
			c.Store, c.Shared = &shared{holder: "another"}, true
		})
		for _, answer := range test.answers {
			r.oracle.says(answer)
			r.turn()
		}
		if got := fmt.Sprint(r.bounds); got != test.want {
			t.Errorf("%s: bounds %s, want %s", test.name, got, test.want)
		}
	}
}
