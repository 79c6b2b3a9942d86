package check

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/net/cycle"
	"weir/internal/net/http1"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// A connection keeps little memory after a question of many asks, and that of usual ones.
func TestPartsKept(t *testing.T) {
	l := testkit.Must(limit.NewFixed(5, time.Hour))(t)
	env := &Env{
		Access: &AccessPolicy{Open: true}, Mode: func() store.Mode { return store.Exact }, Count: func(API, int, Protocol) {},
		Ask: func(_ time.Time, _ *store.Ask, ans *store.Answer, _ store.Done) bool {
			*ans = store.Answer{Granted: 1, Prior: make([]store.PriorState, 1)}
			return true
		},
	}
	now := time.Unix(1e9, 0)
	for _, test := range []struct {
		asks int
		kept bool
	}{{1, true}, {100, true}, {5000, false}} {
		s := New(now, env, netip.Addr{}, false)
		var groups []*store.Group
		for range test.asks {
			groups = append(groups, &store.Group{N: 1, Counters: []store.Counter{{Rule: "r", Limit: &l, Cost: 1}}})
		}
		body := asks.AppendBatch(nil, nil, groups)
		for range 2 {
			s.HandleData(now, fmt.Appendf(nil, "POST /v1/decide HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s",
				len(body), body))
			if len(env.Out) < 20*test.asks || (cap(s.parts) > 0) != test.kept {
				t.Errorf("%d asks: %d bytes are answered, memory for %d parts is kept", test.asks, len(env.Out), cap(s.parts))
			}
			env.Reset()
		}
	}
}

// An answer is bounded, however large the states of the keys are that are asked about. Asks
// that do not fit are answered as not decided, and those after them that fit are decided.
func TestAnswerIsBounded(t *testing.T) {
	log := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: limit.LogMax, Window: 3600})
	var full limit.State
	for at := range int64(limit.LogMax) {
		log.Decide(limittest.Epoch+at, &full, limit.Charge{N: 1, Cost: 1})
	}
	n := 0
	env := &Env{
		Access: &AccessPolicy{Open: true}, Mode: func() store.Mode { return store.Exact }, Count: func(API, int, Protocol) {},
		Ask: func(_ time.Time, _ *store.Ask, ans *store.Answer, _ store.Done) bool {
			if *ans = (store.Answer{Granted: 1, Prior: make([]store.PriorState, 1)}); n < 40 {
				ans.Prior[0].Before = full
			}
			n++
			return true
		},
	}
	var groups []*store.Group
	for range 41 {
		groups = append(groups, &store.Group{N: 1, Counters: []store.Counter{{Rule: "r", Limit: log, Cost: 1}}})
	}
	body := asks.AppendBatch(nil, nil, groups)
	New(time.Unix(1e9, 0), env, netip.Addr{}, false).HandleData(time.Unix(1e9, 0),
		fmt.Appendf(nil, "POST /v1/decide HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	_, answer, _ := bytes.Cut(env.Out, []byte("\r\n\r\n"))
	if mode, err := asks.ParseAnswer(answer, groups); err != nil || mode != store.Exact ||
		len(answer) > asks.AnswerBytesMax+1000 {
		t.Fatalf("%d bytes, mode %v, %v", len(answer), mode, err)
	}
	decided := 0
	for _, g := range groups[:40] {
		if g.Err == nil {
			decided++
		}
	}
	if want := asks.AnswerBytesMax / log.BytesMax(0); decided != want || groups[40].Err != nil {
		t.Errorf("%d large ones are decided, want %d; the small one: %v", decided, want, groups[40].Err)
	}
}

// Requests that come together are answered one after the other, and no more of them at once
// than a few answers take: short requests have large answers.
func TestPipelineIsBounded(t *testing.T) {
	docs := &Documents{Named: map[string]store.Document{"d": {Version: 1, Body: make([]byte, 100<<10)}}}
	env := &Env{Access: &AccessPolicy{Open: true}, Documents: func() *Documents { return docs },
		Count: func(API, int, Protocol) {}}
	now := time.Unix(1e9, 0)
	const requests = 100
	left := bytes.Repeat([]byte("GET /v1/documents/d HTTP/1.1\r\nHost: x\r\n\r\n"), requests)
	s, answers := New(now, env, netip.Addr{}, false), 0
	for call := 0; call < requests && (call == 0 || s.Full()); call++ {
		left = left[s.HandleData(now, left):]
		if len(env.Out) > outMax+101<<10 {
			t.Fatalf("call %d writes %d bytes", call, len(env.Out))
		}
		answers += bytes.Count(env.Out, []byte("HTTP/1.1 200 OK\r\n"))
		env.Reset()
	}
	if answers != requests || len(left) > 0 {
		t.Errorf("%d answers, %d bytes are unread", answers, len(left))
	}
}

// A connection outlives a refusal, also one whose body the asker does not read, as nginx, and a question
// with an empty body, as Envoy's.
func TestRefusalsKeepTheConnection(t *testing.T) {
	const forms = "X-Original-Method: GET\r\nX-Original-URI: /a\r\nX-Original-Host: h\r\n"
	for _, test := range []struct {
		question, fields string
		access           AccessPolicy
		status           string
		bodiless         bool
	}{
		{"GET /check/original?deny=403", forms, AccessPolicy{Open: true}, "403", true},
		{"GET /check/original", forms, AccessPolicy{Open: true}, "429", false},
		{"GET /check/path/a", "X-Forwarded-For: 192.0.2.1\r\nContent-Length: 0\r\n", AccessPolicy{Open: true}, "429", false},
		{"GET /check/original?deny=403", "", AccessPolicy{Open: true}, "403", true},
		{"GET /check/other", "", AccessPolicy{Open: true}, "404", false},
		{"GET /check/original?deny=404", "", AccessPolicy{Open: true}, "400", false},
		{"GET /check/path/a", "", AccessPolicy{Token: "secret"}, "403", false},
	} {
		env := queueing(t, time.Microsecond)
		now := time.Unix(1e9, 0)
		put(now, env)
		env.Reset()
		env.Access = &test.access
		s := New(now, env, netip.MustParseAddr("192.0.2.9"), false)
		for range 2 {
			s.HandleData(now, []byte(test.question+" HTTP/1.1\r\nHost: w\r\n"+test.fields+"\r\n"))
			head, body, _ := bytes.Cut(env.Out, []byte("\r\n\r\n"))
			if !bytes.HasPrefix(head, []byte("HTTP/1.1 "+test.status)) || (len(body) == 0) != test.bodiless ||
				env.Close != cycle.CloseNone {
				t.Errorf("%s: %q, close %d", test.question, env.Out, env.Close)
			}
			env.Reset()
		}
	}
}

// The port's own answers have the policies of the programs' own answers. Those about a described
// request, which a reverse proxy may forward to the client, have none.
func TestPolicies(t *testing.T) {
	want := make(http.Header)
	service.SetCSP(want, "")
	docs := &Documents{Named: map[string]store.Document{"d": {Version: 1, Body: []byte("{}")}}}
	for question, own := range map[string]bool{
		"GET /config/decisions/1": true, "GET /v1/documents/d": true, "GET /v1/documents/none": true,
		"GET /v1/marks": true, "POST /v1/edit": true,
		"GET /json": true, "POST /v1/decide": true, "GET /healthcheck": true, "GET /check/other": true,
		"GET /check/path/a": false,
	} {
		now := time.Unix(1e9, 0)
		env := queueing(t, time.Microsecond)
		put(now, env)
		env.Reset()
		env.Documents, env.Healthy = func() *Documents { return docs }, func() bool { return true }
		New(now, env, netip.MustParseAddr("192.0.2.9"), false).HandleData(now,
			[]byte(question+" HTTP/1.1\r\nHost: w\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 0\r\n\r\n"))
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(env.Out)), nil)
		if err != nil {
			t.Fatalf("%s: %v", question, err)
		}
		for name := range want {
			if got := res.Header[name]; own && !slices.Equal(got, want[name]) || !own && got != nil {
				t.Errorf("%s: %d has %s %q", question, res.StatusCode, name, got)
			}
		}
	}
}

// A question's head is bounded by the settings of the port.
func TestHeadIsBounded(t *testing.T) {
	const bytesMax, fieldsMax = 2000, 20
	pad := func(n int) string { return "X-Pad: " + strings.Repeat("x", n-len("X-Pad: \r\n")) + "\r\n" }
	const question = "GET /check/path/a HTTP/1.1\r\nHost: w\r\nX-Client: a\r\n"
	room := bytesMax - len(question) - len("\r\n")
	for _, test := range []struct {
		fields, status string
	}{
		{pad(room), "200"},
		{pad(room + 1), "431"},
		{"X-Pad: \x00\r\n", "400"},
		{strings.Repeat("A: b\r\n", fieldsMax-2), "200"},
		{strings.Repeat("A: b\r\n", fieldsMax-1), "431"},
	} {
		env := granting(t)
		env.Access, env.Head = &AccessPolicy{}, &http1.Limits{HeadBytes: bytesMax, Fields: fieldsMax}
		env.Trusted = func(netip.Addr) bool { return true }
		now := time.Unix(1e9, 0)
		New(now, env, netip.MustParseAddr("192.0.2.9"), false).HandleData(now, []byte(question+test.fields+"\r\n"))
		if !bytes.HasPrefix(env.Out, []byte("HTTP/1.1 "+test.status)) {
			t.Errorf("%d bytes of fields: %.40q, want %s", len(test.fields), env.Out, test.status)
		}
	}
}

// A request that cannot be described is admitted or refused as the setting says, and noted.
func TestUndescribed(t *testing.T) {
	large := "X-Pad: " + strings.Repeat("x", 20<<10) + "\r\n"
	described := "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: a\r\nX-Forwarded-Host: h\r\n"
	for _, test := range []struct {
		question, fields string
		admitted         string
		refused          string
		how              cycle.Close
	}{
		{"GET /check/path/a", large, "200 OK", "431 ", cycle.CloseLinger},
		{"GET /check/path/a?deny=403", large, "200 OK", "431 ", cycle.CloseLinger},
		{"GET /check/path/" + strings.Repeat("a", 20<<10), "", "200 OK", "414 ", cycle.CloseLinger},
		{"GET /check/path/\u00e9", "", "200 OK", "400 ", cycle.CloseLinger},
		{"HEAD /check/original", large, "204 No", "431 ", cycle.CloseLinger},
		{"GET /check/original?deny=403", large, "204 No", "403 ", cycle.CloseLinger},
		{"GET /check/forwarded", described, "200 OK", "400 ", cycle.CloseNone},
		{"GET /check/forwarded?deny=403", described, "200 OK", "403 ", cycle.CloseNone},
		{"GET /check/other", large, "431 ", "431 ", cycle.CloseLinger},
		{"POST /v1/decide", large, "431 ", "431 ", cycle.CloseLinger},
		{"GET /check/forwarded", strings.Replace(described, "Uri: a", "Uri: /a#b", 1), "400 ", "400 ", cycle.CloseNone},
	} {
		for _, admit := range []bool{true, false} {
			env := granting(t)
			noted := 0
			env.AdmitUndescribed, env.Undescribed = admit, func(time.Time, string) { noted++ }
			want := test.refused
			if admit {
				want = test.admitted
			}
			now := time.Unix(1e9, 0)
			s := New(now, env, netip.MustParseAddr("192.0.2.9"), false)
			s.HandleData(now, []byte("\r\n"+test.question+" HTTP/1.1\r\nHost: w\r\n"+test.fields+"\r\n"))
			if !strings.HasPrefix(string(env.Out), "HTTP/1.1 "+want) || env.Close != test.how {
				t.Errorf("%.30s, admit %t: %.60q, close %d, want %s", test.question, admit, env.Out, env.Close, want)
			}
			if same := test.admitted == test.refused; same != (noted == 0) {
				t.Errorf("%.30s, admit %t: noted %d times", test.question, admit, noted)
			}
		}
	}
}

// The body of a described request is not read. The connection that it comes over is closed such
// that an asker which still sends it gets the answer, also when the store answers later.
func TestCheckWithBody(t *testing.T) {
	l := testkit.Must(limit.NewFixed(5, time.Hour))(t)
	policy := decide.NewPolicy(l)
	var later store.Done
	env := &Env{Access: &AccessPolicy{Open: true}, Policy: func() *decide.Policy { return policy },
		Trusted: func(netip.Addr) bool { return false },
		Count:   func(API, int, Protocol) {}, Answers: decide.Responder{Style: new(decide.RefusalStyle)},
		Answered: func(time.Time, *Session) {}}
	granted := &store.Answer{Granted: 1, Decisions: []limit.Decision{{Allowed: true, Limit: 5, Remaining: 4}}}
	now := time.Unix(1e9, 0)
	for _, at := range []string{"at once", "later"} {
		env.Ask = func(_ time.Time, _ *store.Ask, ans *store.Answer, done store.Done) bool {
			*ans, later = *granted, done
			return at == "at once"
		}
		s := New(now, env, netip.Addr{}, false)
		s.HandleData(now,
			[]byte("POST /check/path/a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 5\r\n\r\n"))
		if at == "later" {
			later(now, granted)
		}
		if !bytes.HasPrefix(env.Out, []byte("HTTP/1.1 200 OK\r\n")) || env.Close != cycle.CloseLinger {
			t.Errorf("answered %s: %q, close %d", at, env.Out, env.Close)
		}
		env.Reset()
	}
}
