package xds

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/internal/test/testkit"
	"weir/proxy/rules/descriptor"
)

type calls = discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer

// A server is an xDS server whose streams a test plays.
type server struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	t       *testing.T
	addr    string
	streams chan calls
	ends    chan error // of the stream
}

func (s *server) StreamAggregatedResources(stream calls) error {
	s.streams <- stream
	return <-s.ends
}

func startServer(t *testing.T, own *tls.Certificate) *server {
	t.Helper()
	s := &server{t: t, ends: make(chan error), streams: make(chan calls)}
	var options []grpc.ServerOption
	if own != nil {
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(own)))
	}
	g := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(g, s)
	socket := testkit.Listen(t)
	s.addr = socket.Addr().String()
	go func() { _ = g.Serve(socket) }()
	t.Cleanup(g.Stop)
	return s
}

// said returns the next request of a stream as JSON.
func (s *server) said(stream calls) string {
	s.t.Helper()
	request, err := stream.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	var compact bytes.Buffer
	text := protojson.Format(request)
	for word := range strings.FieldsSeq(text) {
		compact.WriteString(word)
	}
	return compact.String()
}

func (s *server) send(stream calls, version, nonce string, all ...*config.RateLimitConfig) {
	s.t.Helper()
	res := &discovery.DiscoveryResponse{VersionInfo: version, Nonce: nonce, TypeUrl: resourceType}
	for _, one := range all {
		res.Resources = append(res.Resources, testkit.Must(anypb.New(one))(s.t))
	}
	if err := stream.Send(res); err != nil {
		s.t.Fatal(err)
	}
}

// follow runs a client until the test ends. Its Put refuses domains named bad, and writes the others to the
// channel.
func follow(t *testing.T, cfg Config) (put chan string, log *testkit.Log) {
	t.Helper()
	put, log = make(chan string, 8), new(testkit.Log)
	cfg.Node, cfg.Log, cfg.BackoffMin, cfg.BackoffMax = "me", log.Logger(), time.Millisecond, time.Millisecond
	if cfg.MessageBytesMax == 0 {
		cfg.MessageBytesMax = 1 << 20
	}
	cfg.Put = func(files []descriptor.File) error {
		text := ""
		for _, f := range files {
			if text += f.Name + " "; strings.Contains(string(f.Text), `"bad"`) {
				return errors.New("bad\nfile")
			}
		}
		put <- text
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		New(cfg).Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return put, log
}

// A configuration is acknowledged, or refused with the fault. A new stream begins anew.
func TestFollow(t *testing.T) {
	s := startServer(t, nil)
	put, log := follow(t, Config{Server: s.addr, Metadata: map[string]string{"zone": "a"},
		Fields: map[string]string{"X-Team": "limits"}})
	stream := <-s.streams
	const node = `"node":{"id":"me","metadata":{"zone":"a"},"userAgentName":"weir"},"typeUrl":"` + resourceType + `"`
	expect := func(want string) {
		t.Helper()
		if have := s.said(stream); have != "{"+want+"}" {
			t.Errorf("said %s, want {%s}", have, want)
		}
	}
	expect(node)
	if fields, _ := metadata.FromIncomingContext(stream.Context()); strings.Join(fields["x-team"], " ") != "limits" {
		t.Errorf("fields %v", fields)
	}
	s.send(stream, "1", "a", full(t), &config.RateLimitConfig{Name: "two", Domain: "two"})
	expect(`"versionInfo":"1",` + node + `,"responseNonce":"a"`)
	if files := <-put; files != "shop.yaml two " {
		t.Errorf("put %q", files)
	}
	s.send(stream, "2", "b", &config.RateLimitConfig{Domain: "bad"})
	expect(`"versionInfo":"1",` + node + `,"responseNonce":"b","errorDetail":{"code":3,"message":"bad;file"}`)
	if err := stream.Send(&discovery.DiscoveryResponse{VersionInfo: "3", Nonce: "c",
		Resources: []*anypb.Any{testkit.Must(anypb.New(&core.Node{}))(t)}}); err != nil {
		t.Fatal(err)
	}
	if said := s.said(stream); !strings.Contains(said, `aresourcehasthetype\"type.googleapis.com/envoy.config.core.v3.Node\"`) {
		t.Errorf("said %s", said)
	}
	s.send(stream, "3", "e", &config.RateLimitConfig{Name: "two", Domain: "two"}, full(t)) // in any order
	expect(`"versionInfo":"3",` + node + `,"responseNonce":"e"`)
	if files := <-put; files != "shop.yaml two " {
		t.Errorf("put %q", files)
	}
	s.send(stream, "4", "d")
	expect(`"versionInfo":"4",` + node + `,"responseNonce":"d"`)
	if files := <-put; files != "" {
		t.Errorf("put %q, want nothing", files)
	}
	s.ends <- status.Error(codes.Unavailable, "going")
	stream = <-s.streams
	expect(node)
	const lost = `The xDS server is unavailable, the limits in force stay`
	if log.Count(lost) != 1 || !strings.Contains(log.String(), `status 14 of gRPC \"going\"`) {
		t.Errorf("logged %s", log.String())
	}
	s.ends <- nil // before any message
	stream = <-s.streams
	expect(node)
	s.ends <- nil
}

// A server that answers a refusal at once with the same configuration is not refused in a tight loop: waits double.
// The configuration is tried and logged once.
func TestRefusedAgain(t *testing.T) {
	s := startServer(t, nil)
	var tries atomic.Int64
	log := new(testkit.Log)
	c := New(Config{Server: s.addr, Node: "me", Log: log.Logger(), MessageBytesMax: 1 << 20,
		BackoffMin: time.Minute, BackoffMax: 4 * time.Minute, Put: func(files []descriptor.File) error {
			if tries.Add(1); len(files) > 0 {
				return errors.New("bad")
			}
			return nil
		}})
	waits := make(chan time.Duration)
	pass := make(chan struct{})
	c.sleep = func(ctx context.Context, pause time.Duration) bool {
		select {
		case waits <- pause:
		case <-ctx.Done():
			return false
		}
		select {
		case <-pass:
		case <-ctx.Done():
			return false
		}
		return true
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	stream := <-s.streams
	s.said(stream)
	refuse := func(nonce string, most time.Duration) {
		t.Helper()
		s.send(stream, "1", nonce, &config.RateLimitConfig{Domain: "x"})
		if wait := <-waits; wait < most/2 || wait > most {
			t.Errorf("waits %v, want up to %v", wait, most)
		}
	}
	for i, most := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 4 * time.Minute} {
		nonce := strings.Repeat("n", i+1)
		refuse(nonce, most)
		pass <- struct{}{}
		if said := s.said(stream); !strings.Contains(said, `"responseNonce":"`+nonce+`","errorDetail"`) {
			t.Errorf("said %s", said)
		}
	}
	const refused = "Limits of the xDS server refused"
	if tries.Load() != 1 || log.Count(refused) != 1 {
		t.Errorf("tried %d times, logged %s", tries.Load(), log.String())
	}
	s.send(stream, "2", "b")
	if said := s.said(stream); strings.Contains(said, "errorDetail") {
		t.Errorf("said %s", said)
	}
	refuse("c", time.Minute)
	if tries.Load() != 3 || log.Count(refused) != 2 {
		t.Errorf("tried %d times, logged %s", tries.Load(), log.String())
	}
	cancel() // also ends the wait
	<-ended
	s.ends <- nil
}

// A server that accepts a connection, or a call, and sends nothing is not waited for without end, and does not
// count as connected: what is awaited is logged, and the client connects again.
func TestSilentServer(t *testing.T) {
	deaf := testkit.Listen(t) // the kernel accepts, and nobody answers
	silent := startServer(t, nil)
	go func() {
		for stream := range silent.streams {
			_ = stream.SendHeader(nil)
			<-stream.Context().Done()
			silent.ends <- nil
		}
	}()
	for _, server := range []string{deaf.Addr().String(), silent.addr} {
		log := new(testkit.Log)
		c := New(Config{Server: server, Node: "me", Log: log.Logger(), MessageBytesMax: 1 << 20,
			BackoffMin: time.Millisecond, BackoffMax: time.Millisecond})
		c.patience = 10 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Run(ctx)
		}()
		testkit.Eventually(t, "what is awaited is logged", func() bool {
			return strings.Count(log.String(), `has sent no limits for the node \"me\" within 10ms`) > 1
		})
		if c.connected.Load() {
			t.Errorf("%s counts as connected", server)
		}
		cancel()
		<-ended
	}
}

// The client verifies the server's certificate, and ends streams whose messages are too large.
func TestFollowTLS(t *testing.T) {
	own := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	s := startServer(t, &own)
	put, log := follow(t, Config{Server: s.addr, TLS: testkit.Trust(own, ""), MessageBytesMax: 200})
	stream := <-s.streams
	s.said(stream)
	s.send(stream, "1", "a", &config.RateLimitConfig{Name: "x", Domain: "x"})
	<-put
	s.said(stream)
	s.send(stream, "2", "b", &config.RateLimitConfig{Name: strings.Repeat("x", 200), Domain: "x"})
	s.ends <- nil
	<-s.streams
	if !strings.Contains(log.String(), "at most 200 are accepted") {
		t.Errorf("logged %s", log.String())
	}
	s.ends <- nil

	stranger := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	_, log = follow(t, Config{Server: s.addr, TLS: testkit.Trust(stranger, "")})
	testkit.Eventually(t, "the certificate is refused", func() bool {
		return strings.Contains(log.String(), "certificate signed by unknown authority")
	})
}
