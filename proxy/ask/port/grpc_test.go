package port

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"weir/internal/test/testkit"
	"weir/proxy/store/simredis"
)

// dialGRPC connects grpc-go to a port.
func dialGRPC(t *testing.T, p *Server) *grpc.ClientConn {
	t.Helper()
	c := testkit.Must(grpc.NewClient(p.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// withToken returns a context with the port's token.
func withToken(t *testing.T) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret")
}

// about is a request about one value of a key.
func about(key, value string) *service.RateLimitRequest {
	return &service.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}}}}
}

// grpc-go gets answers, and faults as codes.
func TestGRPC(t *testing.T) {
	p, _ := shopPort(t)
	c := service.NewRateLimitServiceClient(dialGRPC(t, p))
	ctx := withToken(t)
	for i, want := range []service.RateLimitResponse_Code{1, 1, 2} {
		answer, err := c.ShouldRateLimit(ctx, about("two", "a"))
		if err != nil || answer.OverallCode != want || len(answer.Statuses) != 1 || answer.Statuses[0].Code != want ||
			answer.Statuses[0].CurrentLimit.RequestsPerUnit != 2 || int(answer.Statuses[0].LimitRemaining) != max(0, 1-i) {
			t.Errorf("call %d: %v, %v", i, answer, err)
		}
	}
	tooLarge := about("two", strings.Repeat("x", 64<<10))
	for _, test := range []struct {
		ctx     context.Context
		request *service.RateLimitRequest
		options []grpc.CallOption
		code    codes.Code
		part    string
	}{
		{t.Context(), about("two", "a"), nil, codes.Unauthenticated, "DECISION_TOKEN"},
		{ctx, new(service.RateLimitRequest), nil, codes.InvalidArgument, "domain"},
		{ctx, tooLarge, nil, codes.ResourceExhausted, "65541 bytes"},
		{ctx, about("two", "b"), []grpc.CallOption{grpc.UseCompressor(gzip.Name)}, codes.Unimplemented, "compressed"},
	} {
		answer, err := c.ShouldRateLimit(test.ctx, test.request, test.options...)
		if status.Code(err) != test.code || !strings.Contains(fmt.Sprint(err), test.part) {
			t.Errorf("%.60v: %v, %v, want %v with %s", test.request, answer, err, test.code, test.part)
		}
	}
	err := dialGRPC(t, p).Invoke(ctx, "/other.Service/Method", about("two", "a"), new(service.RateLimitResponse))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("another method: %v", err)
	}
	counts := scrape(t, p)
	for name, want := range map[string]float64{
		`ratelimiter_check_requests_total{api="grpc",code="OK"}`:               3,
		`ratelimiter_check_requests_total{api="grpc",code="INVALID_ARGUMENT"}`: 1,
		`ratelimiter_check_requests_by_protocol_total{protocol="h2c"}`:         8,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}`:      4,
	} {
		if counts[name] != want {
			t.Errorf("%s is %v, want %v", name, counts[name], want)
		}
	}
}

// Calls over one connection get their own answers, also when the store answers later.
func TestGRPCStreams(t *testing.T) {
	memory := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(memory.Close)
	for _, later := range []bool{false, true} {
		_, limits := shopLimits(t, new(testkit.LogRecords))
		cfg := Config{Limits: limits, Store: memory}
		if later {
			cfg.Store = &slow{Store: memory, turns: true}
		}
		p := startWith(t, cfg)
		c, ctx := service.NewRateLimitServiceClient(dialGRPC(t, p)), withToken(t)
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				r := about("two", fmt.Sprint(later, i))
				for range i % 3 {
					r.Descriptors = append(r.Descriptors, about("two", fmt.Sprint(later, i, "more")).Descriptors...)
				}
				answer, err := c.ShouldRateLimit(ctx, r)
				if err != nil || len(answer.Statuses) != len(r.Descriptors) || answer.Statuses[0].LimitRemaining != 1 {
					t.Errorf("call %d: %v, %v", i, answer, err)
				}
			})
		}
		all.Wait()
		p.Drain(context.Background())
	}
}

// The health service answers grpc-go. A drain is reported, and ends calls of Watch.
func TestGRPCHealth(t *testing.T) {
	p := start(t, 0)
	c := grpc_health_v1.NewHealthClient(dialGRPC(t, p))
	for name, want := range map[string]codes.Code{"": codes.OK, "ratelimit": codes.OK, "other": codes.NotFound} {
		answer, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		if status.Code(err) != want || err == nil && answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, answer, err)
		}
	}
	watch := testkit.Must(c.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{}))(t)
	if answer := testkit.Must(watch.Recv())(t); answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("before: %v", answer)
	}
	drained := make(chan int)
	go func() { drained <- p.Drain(context.Background()) }()
	if answer := testkit.Must(watch.Recv())(t); answer.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while draining: %v", answer)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("at the end: %v", err)
	}
	if cut := <-drained; cut != 0 {
		t.Errorf("%d connections were cut", cut)
	}
}

// A call whose deadline passes while the store is asked ends with that code.
func TestGRPCDeadline(t *testing.T) {
	memory := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(memory.Close)
	s := &slow{Store: memory}
	_, limits := shopLimits(t, new(testkit.LogRecords))
	p := startWith(t, Config{Limits: limits, Store: s})
	defer p.Drain(context.Background())
	tr := &http.Transport{Protocols: new(http.Protocols)} // a client that waits longer than it says
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	message := "\x00\x00\x00\x00\x15\x0a\x04shop\x12\x0d\x0a\x0b\x0a\x03two\x12\x04late"
	q := testkit.Must(http.NewRequest("POST", "http://"+p.Addr().String()+
		"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", strings.NewReader(message)))(t)
	q.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Grpc-Timeout": {"20m"},
		"Authorization": {"Bearer secret"}}
	res := testkit.Must(tr.RoundTrip(q))(t)
	defer res.Body.Close()
	if res.Header.Get("Grpc-Status") != "4" {
		t.Errorf("%v", res.Header)
	}
}

// Everything is answered over HTTP/2 too: by prior knowledge, and over TLS by ALPN.
func TestHTTP2(t *testing.T) {
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	for _, secure := range []bool{false, true} {
		tr, scheme, cfg := &http.Transport{Protocols: new(http.Protocols)}, "http", Config{Limits: new(Limits)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		memory := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
		cfg.Store = memory
		if secure {
			scheme = "https"
			cfg.Secure = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
			tr = &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: testkit.Trust(pair, "127.0.0.1")}
		}
		p := startWith(t, cfg)
		testkit.Eventually(t, "documents are shown", func() bool { return p.documents.current.Load() != nil })
		c := &http.Client{Transport: tr}
		for _, test := range []struct {
			method, path, body string
			status             int
			part               string
		}{
			{"GET", "/healthcheck", "", 200, "OK"},
			{"POST", "/v1/decide", question(t, 1), 200, ""},
			{"GET", "/v1/marks", "", 200, "documents"},
			{"POST", "/v1/edit", `{"rule":"r"}`, 403, "ADMIN_TOKEN"},
			{"POST", "/json", `{}`, 400, "domain"},
			{"GET", "/nothing", "", 404, "not found"},
		} {
			q := testkit.Must(http.NewRequest(test.method, scheme+"://"+p.Addr().String()+test.path,
				strings.NewReader(test.body)))(t)
			q.Header.Set("Authorization", "Bearer secret")
			res := testkit.Must(c.Do(q))(t)
			body := testkit.Must(io.ReadAll(res.Body))(t)
			if res.ProtoMajor != 2 || res.StatusCode != test.status || !strings.Contains(string(body), test.part) {
				t.Errorf("%s %s: HTTP/%d %d %q, want %d with %q", scheme, test.path, res.ProtoMajor, res.StatusCode, body,
					test.status, test.part)
			}
		}
		tr.CloseIdleConnections()
		p.Drain(context.Background())
		memory.Close()
	}
}

// The maximum ages of connections differ by a tenth, and are the configured one on average.
func TestAgesAreSpread(t *testing.T) {
	const age, n = time.Hour, 1000
	r, now := &side{port: &Server{cfg: Config{Age: age}}}, time.Unix(1e9, 0)
	low, high, sum := age, age, time.Duration(0)
	for range n {
		one := r.endOf(now).Sub(now)
		low, high, sum = min(low, one), max(high, one), sum+one
	}
	if low < 54*time.Minute || low > 55*time.Minute || high > 66*time.Minute || high < 65*time.Minute ||
		(sum/n-age).Abs() > time.Second*10 {
		t.Errorf("from %v to %v, on average %v", low, high, sum/n)
	}
	if r.port.cfg.Age = 0; !r.endOf(now).IsZero() {
		t.Error("there is an age without the setting")
	}
}
