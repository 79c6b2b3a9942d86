package port

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/proxy/ask/envoy"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
	"weir/proxy/store/asks"
	"weir/proxy/store/simredis"
)

// start starts a port over a simulated Redis, whose idle connections outlive the beginning
// of a drain by grace.
func start(t *testing.T, grace time.Duration) *Server {
	t.Helper()
	s := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(s.Close)
	return startOn(t, s, grace, new(Limits))
}

// startOn starts a port over a store, with limits for /json.
func startOn(t *testing.T, s store.Store, grace time.Duration, limits *Limits) *Server {
	t.Helper()
	return startWith(t, Config{Limits: limits, Store: s, DrainGrace: grace})
}

// startWith starts a port; cfg has what tests differ in.
func startWith(t *testing.T, cfg Config) *Server {
	t.Helper()
	socket := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	cfg.Socket, cfg.Loop, cfg.Local, cfg.Documents = socket, loop.Config{Loops: 1}, true, []string{"d"}
	cfg.RateLimit = envoy.Settings{AllOrNothing: true, NearRatio: 0.8, LimitFields: decide.XRateLimit}
	cfg.Access = AccessPolicy{Token: "secret", Edit: "admin"}
	cfg.Healthy, cfg.DrainTimeout = func() bool { return true }, testkit.Timeout
	return testkit.Must(Start(cfg))(t)
}

// question is one ask for n of a limit of 5.
func question(t *testing.T, n int) string {
	l := testkit.Must(limit.NewFixed(5, 100*365*24*time.Hour))(t)
	g := &store.Group{N: n, Counters: []store.Counter{{Rule: "r", Limit: &l, Cost: 1}}}
	return string(asks.AppendBatch(nil, nil, []*store.Group{g}))
}

// request is one with a token and a body.
func request(method, path, token, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", method,
		path, token, len(body), body)
}

// The fault of a request is reported.
func TestBadInput(t *testing.T) {
	p := start(t, 0)
	defer p.Drain(context.Background())
	good := question(t, 1)
	testkit.Eventually(t, "documents are shown", func() bool { return p.documents.current.Load() != nil })
	for _, test := range []struct {
		request string
		status  int
		part    string
	}{
		{request("POST", "/v1/decide", "secret", good), 200, ""},
		{request("POST", "/v1/decide", "admin", good), 200, ""},
		{request("POST", "/v1/decide", "wrong", good), 401, "DECISION_TOKEN"},
		{"POST /v1/decide HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", 401, "DECISION_TOKEN"},
		{request("POST", "/v1/decide", "secret", good[:20]), 400, `"path":"byte 1`},
		{request("POST", "/v1/decide", "secret", good+"x"), 400, "should end here"},
		{request("POST", "/v1/decide", "secret", "\x02"+good[1:]), 409, "version 2"},
		{"POST /v1/decide HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: 2000000\r\n\r\n", 413,
			"1048576"},
		{"POST /v1/decide HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n", 411, ""},
		{request("GET", "/v1/decide", "secret", ""), 405, "POST"},
		{request("POST", "/v1/edit", "secret", `{"rule":"r"}`), 403, "ADMIN_TOKEN"},
		{request("POST", "/v1/edit", "admin", `{"rule":"r","key":"YQ=="}`), 200, `{"changed":false}`},
		{request("POST", "/v1/edit", "admin", `{"rule":"r","key":null}`), 200, `{"changed":true}`},
		{request("POST", "/v1/edit", "admin", `{"rule":"r","kee":"YQ=="}`), 400, `"path":"kee"`},
		{request("POST", "/v1/edit", "admin", `{"rule":"r"`), 400, "column 12"},
		{request("POST", "/v1/edit", "admin", `{"rule":"r"} {}`), 400, "column 14"},
		{request("POST", "/v1/edit", "admin", `{"rule":1}`), 400, `"path":"rule"`},
		{request("POST", "/v1/edit", "admin", `{"add":1}`), 400, `"path":"rule"`},
		{request("POST", "/v1/edit", "admin", `{"rule":"r","key":"?"}`), 400, `"path":"key"`},
		{request("POST", "/v1/edit", "admin", `{"rule":"r","add":-1}`), 400, `"path":"add"`},
		{request("GET", "/v1/marks", "secret", ""), 200, `"documents":{"d":"0-0-00000000"}`},
		{request("GET", "/v1/documents/d", "secret", ""), 204, ""},
		{request("GET", "/v1/documents/e", "secret", ""), 404, "no document"},
		{request("GET", "/v2", "", ""), 404, "not found"},
		{request("POST", "/v2", "secret", good), 404, "not found"},
		{"GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n", 200, "OK"},
		{"GET /healthcheck HTTP/1.0\r\n\r\n", 200, "OK"},
		{"GET /healthcheck HTTP/1.1\r\n\r\n", 400, "malformed"},
	} {
		c := testkit.Dial(t, p.Addr().String())
		c.Send(test.request)
		method, _, _ := strings.Cut(test.request, " ")
		res, body := c.Answer(method)
		if res.StatusCode != test.status || !strings.Contains(body, test.part) {
			t.Errorf("%.80q: %d %q, want %d with %q", test.request, res.StatusCode, body, test.status, test.part)
		}
		if asks := res.Header.Get("WWW-Authenticate") == "Bearer"; asks != (res.StatusCode == 401) {
			t.Errorf("%.80q: WWW-Authenticate is there: %v", test.request, asks)
		}
		if res.Header.Get("Date") == "" {
			t.Errorf("%.80q: there is no Date", test.request)
		}
	}
}

// Requests that come together, or a byte at a time, are answered in order; the last one
// before a drain says that the connection ends.
func TestPipeline(t *testing.T) {
	p := start(t, 0)
	all := request("POST", "/v1/decide", "secret", question(t, 2)) + request("POST", "/v1/edit", "admin",
		`{"rule":"x"}`) + request("GET", "/healthcheck", "", "")
	together, single := testkit.Dial(t, p.Addr().String()), testkit.Dial(t, p.Addr().String())
	together.Send(all)
	for i := range len(all) {
		single.Send(all[i : i+1])
	}
	for _, c := range []*testkit.Conn{together, single} {
		for i, method := range []string{"POST", "POST", "GET"} {
			if res, body := c.Answer(method); res.StatusCode != 200 || res.Close {
				t.Errorf("answer %d: %d %q", i, res.StatusCode, body)
			}
		}
	}
	together.Send(all[:30])
	testkit.Eventually(t, "a head has begun", func() bool { return on(p, begun) == 1 })
	drained := make(chan int)
	go func() { drained <- p.Drain(context.Background()) }()
	single.Closed()
	together.Send(all[30:])
	if res, _ := together.Answer("POST"); res.StatusCode != 200 || !res.Close {
		t.Errorf("the last answer: %d, closes: %t", res.StatusCode, res.Close)
	}
	if cut := <-drained; cut != 0 {
		t.Errorf("%d connections were cut", cut)
	}
}

// So are many requests that come together whose answers are larger than what is sent at once.
func TestPipelineOfDocuments(t *testing.T) {
	s := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	defer s.Close()
	body := []byte(`"` + strings.Repeat("x", 200<<10) + `"`)
	if _, written, err := s.CompareAndSet("d", 0, body); err != nil || !written {
		t.Fatal(err)
	}
	p := startOn(t, s, 0, new(Limits))
	defer p.Drain(context.Background())
	testkit.Eventually(t, "the document is shown", func() bool {
		shown := p.documents.current.Load()
		return shown != nil && shown.Named["d"].Version == 1
	})
	c := testkit.Dial(t, p.Addr().String())
	const requests = 100
	c.Send(strings.Repeat("GET /v1/documents/d HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n", requests))
	for i := range requests {
		if res, got := c.Answer("GET"); res.StatusCode != 200 || got != string(body) {
			t.Fatalf("answer %d: %d, %d bytes", i, res.StatusCode, len(got))
		}
	}
}

// on asks a side on its loop.
func on[T any](p *Server, ask func(now time.Time, r *side) T) T {
	answer := make(chan T, 1)
	r := p.sides[0]
	r.loop.Post(func(now time.Time) {
		answer <- ask(now, r)
	})
	return <-answer
}

// begun is how many connections are in a head or a body.
func begun(now time.Time, r *side) (n int) {
	r.loop.Each(func(_ *loop.Conn, h loop.Handler) {
		if h.(*conn).session.Deadline().Before(now.Add(30 * time.Second)) {
			n++
		}
	})
	return n
}

// A request that is on its way over an idle connection when the drain begins is answered, and
// other programs are sent no more.
func TestDrainGrace(t *testing.T) {
	p := start(t, testkit.Timeout)
	c, health := testkit.Dial(t, p.Addr().String()), testkit.Dial(t, p.Addr().String())
	for _, one := range []*testkit.Conn{c, health} {
		one.Send(request("GET", "/healthcheck", "", ""))
		one.Answer("GET")
	}
	drained := make(chan int)
	go func() { drained <- p.Drain(context.Background()) }()
	testkit.Eventually(t, "the loop drains",
		func() bool { return on(p, func(_ time.Time, r *side) bool { return r.draining }) })
	c.Send(request("POST", "/v1/decide", "secret", question(t, 1)))
	if res, body := c.Answer("POST"); res.StatusCode != 200 || !res.Close {
		t.Errorf("answered %d %q, closes: %t", res.StatusCode, body, res.Close)
	}
	health.Send(request("GET", "/healthcheck", "", ""))
	if res, body := health.Answer("GET"); res.StatusCode != 500 || body != "" {
		t.Errorf("it says of its health %d %q", res.StatusCode, body)
	}
	if cut := <-drained; cut != 0 {
		t.Errorf("%d connections were cut", cut)
	}
}
