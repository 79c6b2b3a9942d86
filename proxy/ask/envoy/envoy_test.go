package envoy

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/data/strict"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/descriptor"
	"weir/proxy/rules/rls"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

const shop = `
domain: shop
descriptors:
  - {key: two, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: ten, rate_limit: {unit: hour, requests_per_unit: 10, name: ten}, metadata: {ten: {a: 1, b: [2]}}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}, metadata: {ten: {a: 3, c: 4}, quota: x}}
  - {key: free, rate_limit: {unlimited: true, replaces: [{name: ten}]}}
  - {key: none, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: token, rate_limit: {algorithm: token, capacity: 5, fillRate: 0.5}}
  - {key: share, value: "a*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}}
`

// A world is a service with a table of its own.
type world struct {
	t        *testing.T
	settings Settings
	counts   RequestCounts
	series   map[string]*DescriptorCounts
	unknown  int
	domains  *descriptor.Domains
	table    *simredis.Table
	mode     store.Mode
	c        Evaluation
	node     strict.Node
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, settings: Settings{AllOrNothing: true, DebtMax: 100, NearRatio: 0.8},
		series: make(map[string]*DescriptorCounts)}
	var err error
	if w.table, err = simredis.New(simredis.Config{}); err != nil {
		t.Fatal(err)
	}
	if w.domains, err = descriptor.Read([]descriptor.File{{Name: "shop.yaml", Text: []byte(shop)}}, false); err != nil {
		t.Fatal(err)
	}
	w.counts.NotFound = func(_ []byte, n int) { w.unknown += n }
	w.counts.Series = func(domain string, name []byte) *DescriptorCounts {
		if w.series[string(name)] == nil {
			w.series[string(name)] = new(DescriptorCounts)
		}
		return w.series[string(name)]
	}
	return w
}

// ask decides a request at a second of a minute, and writes the response in short:
// the code, and of each status its code, what is left and the seconds until the reset.
func (w *world) ask(second int, body string) string {
	w.t.Helper()
	if err := w.node.Parse([]byte(body)); err != nil {
		w.t.Fatal(err)
	}
	if err := w.c.Request.Read(&w.node); err != nil {
		w.t.Fatal(err)
	}
	now := time.Unix(int64(1_800_000_000+second), 0)
	if err := w.c.Begin(&w.settings, &w.counts, w.domains); err != nil {
		return err.Error()
	}
	for _, g := range w.c.Refunds {
		w.table.Add(now, g.Rule, g.Key, g.N)
	}
	for i := range w.c.Asks {
		var ans store.Answer
		switch w.table.Take(now, &w.c.Asks[i], &ans); w.mode {
		case store.FailOpen:
			ans = store.Answer{Granted: 1, Mode: store.FailOpen}
		case store.Closed:
			ans = store.Answer{Mode: store.Closed}
		default:
			ans.Mode = w.mode
		}
		if w.c.AddAnswer(i, &ans); w.c.Closed {
			return "closed"
		}
	}
	w.c.Respond(now)
	text := w.c.Response.OverallCode.String()
	for _, s := range w.c.Response.Statuses {
		text += " " + strings.TrimSuffix(s.Code.String(), "_LIMIT")
		if s.Limit.Given || s.Remaining > 0 {
			text += fmt.Sprintf(":%d:%d", s.Remaining, s.UntilReset/time.Second)
		}
	}
	return text
}

// body is a request with descriptors of one entry each: "two=x*3" is charged 3, even if it is refused,
// and "two=x #3" as well, unless it is refused.
func body(descriptors string) string {
	descriptors, hits, _ := strings.Cut(descriptors, " #")
	text := `{"domain":"shop","hitsAddend":` + cmp.Or(hits, "0") + `,"descriptors":[`
	for i, one := range strings.Fields(descriptors) {
		if i > 0 {
			text += ","
		}
		entry, hits, given := strings.Cut(one, "*")
		key, value, _ := strings.Cut(entry, "=")
		text += fmt.Sprintf(`{"entries":[{"key":%q,"value":%q}]`, key, value)
		if given {
			text += `,"isNegativeHits":` + fmt.Sprint(strings.HasPrefix(hits, "-")) + `,"hitsAddend":` +
				strings.TrimPrefix(hits, "-")
		}
		text += "}"
	}
	return text + "]}"
}

type step struct {
	at          int // in the minute
	descriptors string
	want        string
}

func (w *world) run(steps []step) {
	w.t.Helper()
	for _, s := range steps {
		if have := w.ask(s.at, body(s.descriptors)); have != s.want {
			w.t.Errorf("at %d: %s: %s, want %s", s.at, s.descriptors, have, s.want)
		}
	}
}

func TestStatuses(t *testing.T) {
	newWorld(t).run([]step{
		{0, "two=x", "OK OK:1:60"},
		{13, "two=x", "OK OK:0:47"},
		{13, "two=x", "OVER_LIMIT OVER:0:47"},
		{13, "two=x*0", "OVER_LIMIT OVER:0:47"}, // looks
		{13, "two=y*0", "OK OK:2:47"},
		{13, "two=y", "OK OK:1:47"},
		{60, "two=x", "OK OK:1:60"},
		{60, "other=x", "OK OK"},
		{60, "none=x", "OVER_LIMIT OVER:0:1"},
		{60, "free=x", "OK OK:4294967295:0"},
		{60, "ten=x", "OK OK:9:3540"},
		{60, "ten=x free=y", "OK OK OK:4294967295:0"}, // replaced
		{60, "ten=x", "OK OK:8:3540"},
		{60, "token=x*2", "OK OK:3:4"},
		{60, "token=x #4", "OVER_LIMIT OVER:3:2"},  // would be admitted then
		{60, "token=x #6", "OVER_LIMIT OVER:3:10"}, // never: in which all is regained
		{60, "token=y #6", "OVER_LIMIT OVER:5:10"},
		{60, "token=y*6", "OVER_LIMIT OVER:0:4"}, // charged: until a look is admitted
		{60, "two=y #3", "OVER_LIMIT OVER:2:60"},
		{60, "share=a1", "OK OK:1:57540"},
		{60, "share=a2", "OK OK:0:57540"},
		{60, "share=b2", "OK OK"},
		{60, "two=x*9007199254740993", "descriptors[0].hitsAddend: must be at most 9007199254740992"},
	})
}

// Nothing is charged when any enforced limit refuses. Independent limits are charged each by
// itself, and so are those that do not enforce, more than eight, and a key's second time.
func TestCharge(t *testing.T) {
	together := newWorld(t)
	together.run([]step{
		{0, "two=x ten=x", "OK OK:1:60 OK:9:3600"},
		{0, "two=x ten=x #2", "OVER_LIMIT OVER:1:60 OK:9:3600"},
		{0, "two=x shadow=x*1 ten=x #2", "OVER_LIMIT OVER:1:60 OK:0:60 OK:9:3600"},
		{0, "two=x ten=x", "OK OK:0:60 OK:8:3600"},
		{0, "two=p two=q*2", "OK OK:1:60 OK:0:60"}, // two keys of one limit
		{0, "two=p two=q", "OVER_LIMIT OK:1:60 OVER:0:60"},
		{0, "ten=z ten=z*9 ten=z", "OVER_LIMIT OK:9:3600 OK:0:3600 OVER:0:3600"},
	})
	if together.c.Apart {
		t.Error("three limits are too many")
	}
	together.run([]step{{0, "ten=1 ten=2 ten=3 ten=4 ten=5 ten=6 ten=7 ten=8 two=x",
		"OVER_LIMIT OK:9:3600 OK:9:3600 OK:9:3600 OK:9:3600 OK:9:3600 OK:9:3600 OK:9:3600 OK:9:3600 OVER:0:60"}})
	if !together.c.Apart {
		t.Error("nine limits are decided together")
	}
	independent := newWorld(t)
	independent.settings.AllOrNothing = false
	independent.run([]step{
		{0, "two=x ten=x*1 #3", "OVER_LIMIT OVER:2:60 OK:9:3600"},
		{0, "two=x ten=x*1 #2", "OK OK:0:60 OK:8:3600"},
	})
}

// What a descriptor says itself that it costs is known when the request has been served: it is charged
// even if a limit refuses, and the next look is refused. A wrong number does not shut a key out for ever.
func TestLateCharges(t *testing.T) {
	for _, together := range []bool{true, false} {
		w := newWorld(t)
		w.settings.AllOrNothing = together
		w.run([]step{
			{0, "ten=x*0", "OK OK:10:3600"},
			{0, "ten=x*15", "OVER_LIMIT OVER:0:3600"},
			{0, "ten=x*0", "OVER_LIMIT OVER:0:3600"},
			{0, "ten=x*-5", "OK OK:0:3600"},
			{0, "ten=x*0", "OVER_LIMIT OVER:0:3600"},
			{0, "ten=x*-1", "OK OK:1:3600"},
			{0, "ten=x*0 two=y*5", "OVER_LIMIT OK:1:3600 OVER:0:60"},
			{60, "token=x*0", "OK OK:5:1"},
			{60, "token=x*7", "OVER_LIMIT OVER:0:6"}, // never at once: as a look
			{61, "token=x*0", "OVER_LIMIT OVER:0:5"}, // 2.5 more and 1
			{66, "token=x*0", "OK OK:1:8"},
		})
		if n := w.counts.Clipped.Load(); n != 0 {
			t.Errorf("%d were clipped", n)
		}
		w.run([]step{
			{66, "token=x*9007199254740992", "OVER_LIMIT OVER:0:1002"},
			{66, "two=z*0 token=x*0", "OVER_LIMIT OK:2:54 OVER:0:1002"},
		})
		if n := w.counts.Clipped.Load(); n != 1 {
			t.Errorf("%d were clipped, want 1", n)
		}
	}
}

// A look is refused when nothing is left.
func TestLooks(t *testing.T) {
	w := newWorld(t)
	w.settings.AllOrNothing, w.settings.LimitFields = false, decide.XRateLimit
	w.run([]step{
		{0, "two=x*0", "OK OK:2:60"},
		{0, "two=x", "OK OK:1:60"},
		{0, "two=x*0", "OK OK:1:60"},
		{0, "two=x", "OK OK:0:60"},
		{0, "shadow=x*0 shadow=x shadow=x*0", "OK OK:1:60 OK:0:60 OK:0:60"},
		{0, "none=x*0", "OVER_LIMIT OVER:0:1"},
		{13, "two=x*0 ten=x", "OVER_LIMIT OVER:0:47 OK:9:3587"},
	})
	if have, want := w.headers(),
		"Retry-After=47 X-RateLimit-Retry-After=47 X-RateLimit-Limit=2 X-RateLimit-Remaining=0 "+
			"Content-Type=application/json"; !strings.HasPrefix(have, want+"{") {
		t.Errorf("%s, want %s", have, want)
	}
	w.run([]step{
		{13, "two=x*-1", "OK OK:1:47"},
		{13, "two=x*0", "OK OK:1:47"},
		{13, "two=x*1", "OK OK:0:47"},
		{60, "two=x*0", "OK OK:2:60"},
		{60, "token=x*5", "OK OK:0:10"},
		{60, "token=x*0", "OVER_LIMIT OVER:0:2"},
	})
}

func TestModes(t *testing.T) {
	newWorld(t).run([]step{
		{0, "shadow=x", "OK OK:0:60"},
		{0, "shadow=x", "OK OK:0:60"},
		{0, "quota=x two=x", "OK OK:0:60 OK:1:60"},
		{0, "quota=x two=x", "OVER_LIMIT OVER:0:60 OK:0:60"}, // all quotas are over
		{0, "quota=x quota=y", "OK OVER:0:60 OK:0:60"},
		{0, "quota=x quota=y", "OVER_LIMIT OVER:0:60 OVER:0:60"},
	})
	w := newWorld(t)
	w.settings.Quota = true
	w.run([]step{
		{0, "two=x ten=x*1 #3", "OK OVER:2:60 OK:9:3600"},
		{0, "two=x #3", "OVER_LIMIT OVER:2:60"},
		{0, "two=x other=x #3", "OK OVER:2:60 OK"},
	})
	w = newWorld(t)
	w.settings.Shadow = true
	w.run([]step{{0, "two=x #3", "OK OVER:2:60"}})
	if n := w.counts.GlobalShadow.Load(); n != 1 {
		t.Errorf("%d were let pass", n)
	}
}

// Hits are given back, and at most those that were taken.
func TestNegativeHits(t *testing.T) {
	newWorld(t).run([]step{
		{0, "ten=x*7", "OK OK:3:3600"},
		{0, "ten=x*-5", "OK OK:8:3600"},
		{0, "ten=x*-5", "OK OK:10:3600"},
		{0, "ten=x*-5 two=y", "OK OK:10:3600 OK:1:60"},
		{0, "other=x*-5", "OK OK"},
	})
}

func TestOverride(t *testing.T) {
	w := newWorld(t)
	ask := func(limit string) string {
		return w.ask(0,
			`{"domain":"shop","hitsAddend":2,"descriptors":[{"entries":[{"key":"shadow","value":"x"}],"limit":`+limit+`}]}`)
	}
	for _, test := range []struct{ limit, want string }{
		{`{"requestsPerUnit":3,"unit":"DAY"}`, "OK OK:1:57600"},
		{`{"requestsPerUnit":3,"unit":"DAY"}`, "OVER_LIMIT OVER:1:57600"}, // no shadow
		{`{"requestsPerUnit":4,"unit":"DAY"}`, "OK OK:0:57600"},
		{`{"requestsPerUnit":4,"unit":7}`, "OK OK:2:489600"},
		{`{"requestsPerUnit":4}`, "descriptors[0].limit.unit: must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK"},
		{`{"unit":9}`, "descriptors[0].limit.unit: must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK"},
	} {
		if have := ask(test.limit); have != test.want {
			t.Errorf("%s: %s, want %s", test.limit, have, test.want)
		}
	}
}

// Requests that are not decided are refused in the words of envoyproxy/ratelimit.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct{ body, want string }{
		{`{}`, "domain: rate limit domain must not be empty"},
		{`{"domain":"shop"}`, "descriptors: rate limit descriptor list must not be empty"},
		{`{"domain":"shop","descriptors":[` + strings.Repeat("{},", rls.DescriptorsMax-1) + `{}]}`,
			"OK" + strings.Repeat(" OK", rls.DescriptorsMax)},
		{`{"domain":"unknown","descriptors":[{"limit":{"unit":1}},{}]}`, "OK OK OK"},
	} {
		if have := w.ask(0, test.body); have != test.want {
			t.Errorf("%s: %s, want %s", test.body, have, test.want)
		}
	}
	if w.unknown != 2 {
		t.Errorf("%d descriptors of an unknown domain", w.unknown)
	}
	w.domains = nil
	if have := w.ask(0, body("two=x")); have != "no rate limit configuration loaded" {
		t.Error(have)
	}
}

// If the store does not answer, the response has no fields, or the request is refused.
func TestUnavailable(t *testing.T) {
	w := newWorld(t)
	w.settings.LimitFields = decide.Envoy
	w.mode = store.FailOpen
	w.run([]step{{0, "two=x*3", "OK OK"}})
	if len(w.c.Response.Headers) > 0 {
		t.Errorf("%s", w.c.Response.Headers)
	}
	w.mode = store.Closed
	w.run([]step{{0, "two=x*3", "closed"}})
}

// headers are those of the last response, and its body.
func (w *world) headers() string {
	var text []string
	for _, h := range w.c.Response.Headers {
		text = append(text, string(h.Key)+"="+string(h.Value))
	}
	return strings.Join(text, " ") + string(w.c.Response.RawBody)
}

func TestHeaders(t *testing.T) {
	for _, test := range []struct {
		limitFields         decide.LimitFields
		descriptors, header string
	}{
		// ten is replaced
		{decide.Envoy, "ten=x two=x*2 free=y", "RateLimit-Limit=2 RateLimit-Remaining=0 RateLimit-Reset=60"},
		{decide.Envoy, "ten=x*9 two=x", "RateLimit-Limit=10 RateLimit-Remaining=1 RateLimit-Reset=3600"},
		// the last that refuses
		{decide.Envoy, "two=x*3 none=x", "RateLimit-Limit=0 RateLimit-Remaining=0 RateLimit-Reset=1"},
		{decide.Envoy, "free=x other=y", ""},
		{0, "two=x", ""},
		{decide.XRateLimit, "two=x", "X-RateLimit-Limit=2 X-RateLimit-Remaining=1"},
		{decide.Standard, "two=x", `RateLimit-Policy="rls/shop/two";q=2;w=60 RateLimit="rls/shop/two";r=1;t=60`},
		{0, "none=x", ""},
		{0, "token=x token=x #5", ""},
		{decide.Standard, "none=x", `RateLimit-Policy="rls/shop/none";q=0;w=1 RateLimit="rls/shop/none";r=0;t=1 ` +
			"Content-Type=application/json" +
			`{"error":"rate limit exceeded","rule":"rls/shop/none","reason":"the limit can never hold this request's cost"}` + "\n"},
		{decide.XRateLimit, "none=x*0", "X-RateLimit-Limit=0 X-RateLimit-Remaining=0 Content-Type=application/json" +
			`{"error":"rate limit exceeded","rule":"rls/shop/none","reason":"the limit can never hold this request's cost"}` + "\n"},
		{decide.Standard, "two=x*2 quota=x*2 free=y",
			`Retry-After=60 RateLimit-Policy="rls/shop/quota";q=1;w=60 RateLimit="rls/shop/quota";r=0;t=60 ` +
				`Content-Type=application/json{"error":"rate limit exceeded","rule":"rls/shop/quota","retryAfter":60}` + "\n"},
		{decide.XRateLimit, "token=x token=x #5",
			"Retry-After=10 X-RateLimit-Retry-After=10 X-RateLimit-Limit=5 X-RateLimit-Remaining=0 " +
				"Content-Type=application/json" +
				`{"error":"rate limit exceeded","rule":"rls/shop/token","retryAfter":10}` + "\n"},
	} {
		w := newWorld(t)
		w.settings.LimitFields = test.limitFields
		w.ask(0, body(test.descriptors))
		if have := w.headers(); have != test.header {
			t.Errorf("%s: %s, want %s", test.descriptors, have, test.header)
		}
	}
}

// Fields of the client have the names in the settings.
func TestFieldNames(t *testing.T) {
	w := newWorld(t)
	w.settings.LimitFields, w.settings.Fields = decide.Envoy, [3]string{"x-limit", "", "x-reset"}
	w.ask(0, body("two=x"))
	if have, want := w.headers(), "x-limit=2 RateLimit-Remaining=1 x-reset=60"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
}

// What is refused has an id, and what it was.
func TestRefusalsAreRemembered(t *testing.T) {
	w := newWorld(t)
	w.settings.LimitFields = decide.XRateLimit
	var kept decide.Refusal
	w.c.Refused = func(_ time.Time, r *decide.Refusal) []byte {
		kept = *r
		kept.Key = append([]byte(nil), r.Key...)
		return []byte("id7")
	}
	w.ask(0, body("two=x"))
	if kept.Rule != nil {
		t.Errorf("%s, and %+v is remembered", w.headers(), kept)
	}
	w.ask(13, body("ten=x two=x #2"))
	if have, want := w.headers(),
		"Retry-After=47 X-RateLimit-Retry-After=47 X-RateLimit-Limit=2 X-RateLimit-Remaining=1 "+
			`X-Weir-Decision=id7 Content-Type=application/json{"error":"rate limit exceeded","rule":"rls/shop/two","retryAfter":47,"decision":"id7"}`+"\n"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
	if kept.Rule.ID != "rls/shop/two" || string(kept.Key) != "3:two1:x" || kept.Cost != 2 ||
		kept.Limit.Permits() != 2 || kept.Remaining != 1 {
		t.Errorf("%+v", kept)
	}
}

func TestMetadata(t *testing.T) {
	w := newWorld(t)
	w.settings.Metadata = true
	w.ask(0, `{"domain":"shop","hitsAddend":1,"descriptors":[{"entries":[{"key":"ten","value":"x"}]},{"entries":[{"key":"quota"}],"hitsAddend":"1"},{"limit":{"requestsPerUnit":1,"unit":"DAY"}}]}`)
	want := `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":10,"unit":"HOUR","name":"ten"},"limitRemaining":9,"durationUntilReset":"3600s"},` +
		`{"code":"OK","currentLimit":{"requestsPerUnit":1,"unit":"MINUTE"},"durationUntilReset":"60s"},{"code":"OK","currentLimit":{"requestsPerUnit":1,"unit":"DAY"},"durationUntilReset":"57600s"}],` +
		`"dynamicMetadata":{"descriptors":[{"entries":["ten=x"]},{"entries":["quota="],"hitsAddend":1},{"entries":[],"limit":"requests_per_unit:1 unit:DAY"}],` +
		`"domain":"shop","hitsAddend":1,"metadata":{"quota":"x","ten":{"a":1,"b":[2],"c":4}}}}`
	if have := string(rls.AppendResponse(nil, &w.c.Response)); have != want {
		t.Errorf("%s, want %s", have, want)
	}
	w.ask(0, body("quota=x ten=x quota=")) // the last refuses
	if have, want := string(rls.AppendResponse(nil, &w.c.Response)),
		`"metadata":{"quota":"x","ten":{"a":3,"b":[2],"c":4}}}`; !strings.Contains(have, want) {
		t.Errorf("%s, want %s", have, want)
	}
}

// Series count as those of envoyproxy/ratelimit do, but that nothing refused is charged.
func TestSeries(t *testing.T) {
	w := newWorld(t)
	for _, one := range []string{"ten=x*7", "ten=x*2", "ten=x", "ten=x*4", "shadow=x", "shadow=x", "free=x", "other=x"} {
		w.ask(0, body(one))
	}
	w.mode = store.Cached
	w.ask(0, body("ten=x*3"))
	for name, want := range map[string][6]uint64{"ten": {17, 7, 2, 3, 10, 0}, "shadow": {2, 1, 1, 0, 1, 1}} {
		s := w.series[name]
		have := [6]uint64{s.TotalHits.Load(), s.OverLimit.Load(), s.NearLimit.Load(), s.Cached.Load(),
			s.WithinLimit.Load(), s.ShadowMode.Load()}
		if have != want {
			t.Errorf("%s: %v, want %v", name, have, want)
		}
	}
	if len(w.series) != 2 {
		t.Errorf("%d series", len(w.series))
	}
}

// What is kept of a request is little, and nothing of its text.
func TestForget(t *testing.T) {
	w := newWorld(t)
	w.settings.Metadata = true
	long := strings.Repeat("x", keptBytes)
	for _, test := range []struct {
		body   string
		little bool
	}{
		{body(strings.Repeat("two=x ", keptMax)), true},
		{body(strings.Repeat("two=x ", keptMax+1)), false},
		{`{"domain":"shop","descriptors":[{"entries":[` + strings.Repeat(`{"key":"a"},`, keptMax-1) + `{"key":"a"}]}]}`,
			true},
		{`{"domain":"shop","descriptors":[{"entries":[` + strings.Repeat(`{"key":"a"},`, keptMax) + `{"key":"a"}]}]}`, false},
		{body("other=" + long), true},
		{body("ten=" + long), false},
	} {
		w.c = Evaluation{}
		w.ask(0, test.body)
		if little := w.c.Reset(); little != test.little {
			t.Errorf("%.80s is little: %t", test.body, little)
		}
		for _, d := range w.c.Request.Descriptors {
			for _, e := range d.Entries {
				if e.Key != nil || e.Value != nil {
					t.Fatalf("%.80s: %s is kept", test.body, e.Key)
				}
			}
		}
		if w.c.Request.Domain != nil || w.c.Response.Metadata != nil {
			t.Errorf("%.80s: its domain or its metadata is kept", test.body)
		}
	}
}

// A decision costs no memory.
func TestNothingIsAllocated(t *testing.T) {
	for _, limitFields := range []decide.LimitFields{0, decide.Envoy, decide.XRateLimit | decide.Standard} {
		w := newWorld(t)
		w.settings.LimitFields = limitFields
		for _, one := range []string{"ten=x two=y", "none=x two=y"} {
			text, now := []byte(body(one)), time.Unix(1_800_000_000, 0)
			var ans store.Answer
			var out []byte
			if allocs := testing.AllocsPerRun(100, func() {
				if w.node.Parse(text) != nil || w.c.Request.Read(&w.node) != nil ||
					w.c.Begin(&w.settings, &w.counts, w.domains) != nil {
					t.Fatal("refused")
				}
				for i := range w.c.Asks {
					w.table.Take(now, &w.c.Asks[i], &ans)
					w.c.AddAnswer(i, &ans)
				}
				w.c.Respond(now)
				out = rls.AppendResponse(out[:0], &w.c.Response)
			}); allocs > 0 {
				t.Errorf("%s, families %d: %v allocations", one, limitFields, allocs)
			}
		}
	}
}

func BenchmarkCase(b *testing.B) {
	w := newWorld(&testing.T{})
	text, now := []byte(body("ten=x")), time.Unix(1_800_000_000, 0)
	var ans store.Answer
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		if w.node.Parse(text) != nil || w.c.Request.Read(&w.node) != nil ||
			w.c.Begin(&w.settings, &w.counts, w.domains) != nil {
			b.Fatal("refused")
		}
		w.table.Take(now, &w.c.Asks[0], &ans)
		w.c.AddAnswer(0, &ans)
		w.c.Respond(now)
		out = rls.AppendResponse(out[:0], &w.c.Response)
	}
}
