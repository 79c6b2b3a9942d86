package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/internal/test/testkit"
)

// A gateway is an xDS server, as Envoy Gateway has one: it sends configurations, and notes what is said of them.
type gateway struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	t       *testing.T
	configs chan []*config.RateLimitConfig // are sent
	said    chan *discovery.DiscoveryRequest
}

func (g *gateway) StreamAggregatedResources(
	stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		g.said <- request
		var response discovery.DiscoveryResponse
		for _, c := range <-g.configs {
			response.Resources = append(response.Resources, testkit.Must(anypb.New(c))(g.t))
			response.VersionInfo, response.Nonce, response.TypeUrl = c.Domain, c.Domain, request.TypeUrl
		}
		if err := stream.Send(&response); err != nil {
			return err
		}
	}
}

// serve returns the address where the gateway answers until the test ends.
func (g *gateway) serve(options ...grpc.ServerOption) (addr string) {
	server := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(server, g)
	socket := testkit.Listen(g.t)
	go func() { _ = server.Serve(socket) }()
	g.t.Cleanup(server.Stop)
	return socket.Addr().String()
}

// send sends a configuration with one limit.
func (g *gateway) send(domain string) {
	g.configs <- []*config.RateLimitConfig{{Name: domain, Domain: domain,
		Descriptors: []*config.RateLimitDescriptor{level("one", 1)}}}
}

// Limits come from an xDS server by TLS. Until then the proxy is not healthy, and a configuration that is not valid
// changes nothing.
func TestLimitsOfXDS(t *testing.T) {
	own := testkit.SelfSigned(time.Now().Add(time.Hour), "eg.example")
	cert, key := testkit.WritePair(t, own)
	g := &gateway{t: t, configs: make(chan []*config.RateLimitConfig, 1), said: make(chan *discovery.DiscoveryRequest, 8)}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(testkit.Must(os.ReadFile(cert))(t))
	at := g.serve(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{own},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})))
	env := []string{"CONFIG_TYPE", "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL", at,
		"CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit", "CONFIG_GRPC_XDS_SERVER_USE_TLS", "true",
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN", "eg.example",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", cert, "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", cert,
		"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", key, "RUNTIME_ROOT", "/data", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "1ms"}
	cmd, http, _, debug := asRatelimit(t, env...)
	p := testkit.Launch(t, cmd, "INFO Proxy - Ready addr=")
	p.Logged("WARN Proxy - RUNTIME_ROOT has no effect with CONFIG_TYPE=GRPC_XDS_SOTW")
	if first := <-g.said; first.Node.GetId() != "envoy-ratelimit" || first.VersionInfo != "" {
		t.Errorf("said %v", first)
	}
	const ask = `{"domain":"shop","descriptors":[{"entries":[{"key":"one","value":"x"}]}]}`
	p.At(http).Require("GET /healthcheck", 500, "")
	p.At(http).Require("POST /json", 400, "no rate limit configuration loaded", ask)
	g.send("shop")
	if next := <-g.said; next.VersionInfo != "shop" || next.ErrorDetail != nil {
		t.Errorf("said %v", next)
	}
	p.At(http).Require("GET /healthcheck", 200, "OK")
	p.At(http).Require("POST /json", 200, "", ask)
	p.At(http).Require("POST /json", 429, "", ask)
	g.send("")
	if next := <-g.said; next.VersionInfo != "shop" || next.ErrorDetail.GetCode() != 3 {
		t.Errorf("said %v", next)
	}
	p.At(http).Require("POST /json", 429, "", ask)
	p.At(debug).Require("GET /metrics", 200, "\nratelimiter_xds_connected 1\n")
	p.At(debug).Require("GET /metrics", 200, "\nratelimit_service_config_load_error 1\n")

	cmd, http, _, _ = asRatelimit(t, append(env, "FORCE_START_WITHOUT_INITIAL_CONFIG", "true")...)
	testkit.Launch(t, cmd, "INFO Proxy - Ready addr=").At(http).Require("GET /healthcheck", 200, "OK")
}
