package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"weir/internal/test/testkit"
)

// The targets are changed by POST while requests come: none is lost. Their
// endpoints need ADMIN_TOKEN, and the log does not tell it.
func TestTargetsAreReplaced(t *testing.T) {
	const token = "open-sesame"
	one, two := named(t, "one"), named(t, "two")
	p := launch(t, []string{"TARGET_URL", one, "RATE_LIMIT_LIMIT", "1000000", "RATE_LIMIT_WINDOW", "3600",
		"ADMIN_TOKEN", token, "GATE", "off"})
	if first := p.Logged("INFO Proxy - Started version="); strings.Contains(first, token) {
		t.Errorf("the log tells the token: %s", first)
	}
	list := func(targets ...string) string { return testkit.JSON(map[string]any{"targets": targets}) }
	for _, test := range []struct {
		token, body string
		status      int
		part        string
	}{
		{"", list(one, two), 403, ""},
		{"open", list(one, two), 403, ""},
		{token, list("http://a:1", "ftp://b"), 400, `"path":"targets[1]"`},
		{token, list(one, one), 400, "is listed twice"},
	} {
		p.Token = test.token
		p.Require("POST /config/targets", test.status, test.part, test.body)
	}
	if text := p.Require("GET /config/targets", 200, `"url":"`+one); strings.Contains(text, two) {
		t.Errorf("the targets are %s", text)
	}
	calls := callAt(p.Endpoint)
	for i := range 40 {
		p.Require("POST /config/targets", 200, "", []string{list(one, two), list(two)}[i%2])
		calls.more(8)
	}
	calls.stop()
	p.Require("GET /x", 200, "two")
}

// With ADMIN_PORT the own endpoints are there and nowhere else, and their paths are the target's at
// the data port. HEALTH_ON_DATA_PORT has health answered on both ports, and nothing else.
func TestAdminPort(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "target", r.URL.Path) })
	admin := testkit.FreePort(t)
	apart := launch(t, []string{"TARGET_URL", target, "ADMIN_PORT", admin})
	health := launch(t, []string{"TARGET_URL", target, "ADMIN_PORT", testkit.FreePort(t), "HEALTH_ON_DATA_PORT", "true"})
	const own, forwarded = "/actuator/health /actuator/health/readiness",
		"/metrics /config/limits /actuator/healthy /actuator/health/ /actuator/prometheus"
	for path := range strings.FieldsSeq(own + " " + forwarded + " /config/targets /reload") {
		apart.Require("GET "+path, 200, "target"+path)
	}
	for path := range strings.FieldsSeq(forwarded) {
		health.Require("GET "+path, 200, "target"+path)
	}
	for path := range strings.FieldsSeq(own) {
		health.Require("GET "+path, 200, `"status":"UP"`)
	}
	for path, part := range map[string]string{"/metrics": "\nratelimiter_client_connections ",
		"/config/limits": `"source":"default"`, "/config/targets": `"status":"up"`, "/actuator/health": `"status":"UP"`} {
		apart.At(admin).Require("GET "+path, 200, part)
	}
	apart.At(admin).Require("GET /x", 404, "")
}

// With TLS_CERT the admin port has TLS too, unless ADMIN_TLS denies it.
func TestAdminPortTLS(t *testing.T) {
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	cert, key := testkit.WritePair(t, pair)
	for setting, status := range map[string]int{"true": 400, "false": 200} {
		port := testkit.FreePort(t)
		p := launch(t, []string{"TLS_CERT", cert, "TLS_KEY", key, "ADMIN_PORT", port, "ADMIN_TLS", setting})
		at := p.At(port)
		at.Require("GET /config/limits", status, "")
		if setting == "true" {
			at.TLS = testkit.Trust(pair, "127.0.0.1")
		}
		at.Require("GET /config/limits", 200, `"source":"default"`)
	}
}

// The admin port is open on loopback only, wherever the data port is, unless
// ADMIN_BIND says otherwise.
func TestAdminBind(t *testing.T) {
	for bind, elsewhere := range map[string]bool{"": false, "127.0.0.3": true} {
		port := testkit.FreePort(t)
		launch(t, []string{"BIND", "127.0.0.2", "ADMIN_PORT", port, "ADMIN_BIND", bind})
		for host, want := range map[string]bool{"127.0.0.1": !elsewhere, "127.0.0.2": false, "127.0.0.3": elsewhere} {
			if (testkit.Endpoint{Addr: host + ":" + port}).Listens() != want {
				t.Errorf("ADMIN_BIND=%q: want an open port at %s: %t", bind, host, want)
			}
		}
	}
}

// An expired certificate is served, because clients may accept it. It is logged when it is loaded
// and when it is loaded again, and a metric has its expiry date.
func TestExpiredCertificate(t *testing.T) {
	expired := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	cert, key := testkit.WritePair(t, testkit.SelfSigned(expired))
	port := testkit.FreePort(t)
	p := launch(t, []string{"TLS_CERT", cert, "TLS_KEY", key, "ADMIN_PORT", port, "ADMIN_TLS", "false"})
	p.Logged(`WARN TLS - Clients refuse the certificate reason="` + cert + ` expired on 2020-02-03T04:05:06Z"`)
	p.At(port).Require("GET /metrics", 200, "\nratelimiter_certificate_expiry_timestamp_seconds 1.580702706e+09\n")
	newCert, newKey := testkit.WritePair(t, testkit.SelfSigned(expired.Add(time.Hour)))
	if err := errors.Join(os.Rename(newKey, key), os.Rename(newCert, cert)); err != nil {
		t.Fatal(err)
	}
	p.Logged(`WARN TLS - Clients refuse the certificate reason="` + cert + ` expired on 2020-02-03T05:05:06Z"`)
}

// The decision port uses TLS. Askers with a certificate that DECISION_TLS_CLIENT_CA trusts, or
// with the token, may ask and describe requests; others may not.
func TestDecisionTLS(t *testing.T) {
	until := time.Now().Add(time.Hour)
	server, client, stranger := testkit.SelfSigned(until, "127.0.0.1"), testkit.SelfSigned(until),
		testkit.SelfSigned(until)
	cert, key := testkit.WritePair(t, server)
	authority, _ := testkit.WritePair(t, client)
	p, at := startMaster(t, "DECISION_BIND", "0.0.0.0", "DECISION_TLS_CERT", cert, "DECISION_TLS_KEY", key,
		"DECISION_TLS_CLIENT_CA", authority)
	as := func(token string, shown *tls.Certificate) testkit.Endpoint {
		at.Token, at.TLS = token, testkit.Trust(server, "127.0.0.1")
		at.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return shown, nil // whatever the server would like
		}
		return at
	}
	none := new(tls.Certificate)
	as("secret", none).Await("GET /v1/marks", 200, "")
	for _, test := range []struct {
		path, token string
		shown       *tls.Certificate
		status      int
	}{
		{"/check/path/x", "", &client, 200},
		{"/v1/marks", "", &client, 200},
		{"/check/path/x", "secret", none, 200},
		{"/check/path/x", "", none, 403},
		{"/v1/marks", "", none, 401},
		{"/v1/marks", "wrong", none, 401},
	} {
		as(test.token, test.shown).Require("GET "+test.path+" X-Forwarded-For=192.0.2.1", test.status, "")
	}
	for shown, want := range map[*tls.Certificate]codes.Code{&client: codes.InvalidArgument, none: codes.Unauthenticated} {
		c := testkit.Must(grpc.NewClient(at.Addr, grpc.WithTransportCredentials(credentials.NewTLS(as("", shown).TLS))))(t)
		defer c.Close()
		_, err := ratelimit.NewRateLimitServiceClient(c).ShouldRateLimit(t.Context(), new(ratelimit.RateLimitRequest))
		if status.Code(err) != want {
			t.Errorf("gRPC, with a certificate: %t; %v, want %v", shown != none, err, want)
		}
	}
	if res, _, err := as("", &stranger).Try("GET /check/path/x X-Forwarded-For=192.0.2.1"); err == nil {
		t.Errorf("a stranger's certificate: %d", res.StatusCode)
	}
	p.Require("GET /metrics", 200, "\nratelimiter_decision_certificate_expiry_timestamp_seconds ")
	s := startSidecar(t, "REMOTE_URL", "https://"+at.Addr, "REMOTE_CA_FILE", cert)
	s.Require("GET /x", 200, "/x")
	s.Await("GET /metrics", 200, "\nratelimiter_remote_connected 1\n")
	for _, wrong := range []struct {
		told string
		env  []string
	}{
		{"DECISION_TLS_KEY", []string{"DECISION_TLS_CERT", cert}},
		{"DECISION_TLS_CLIENT_CA", []string{"DECISION_TLS_CLIENT_CA", cert}},
		{"no such file", []string{"DECISION_TLS_CERT", cert, "DECISION_TLS_KEY", key, "DECISION_TLS_CLIENT_CA", key + "x"}},
		{"DECISION_TLS_CERT", []string{"DECISION_TLS_CERT", key, "DECISION_TLS_KEY", key}},
	} {
		cannotStart(t, append(wrong.env, "DECISION_PORT", at.Port(), "TARGET_URL", "none"), 2, wrong.told)
	}
}

// GRPC_PORT answers as DECISION_PORT does, with TLS of its own: only to certificates with the name in
// GRPC_TLS_CLIENT_SAN.
func TestGRPCPort(t *testing.T) {
	until := time.Now().Add(time.Hour)
	server, envoy, other := testkit.SelfSigned(until, "127.0.0.1"), testkit.SelfSigned(until, "envoy.example"),
		testkit.SelfSigned(until, "other.example")
	cert, key := testkit.WritePair(t, server)
	authorities, _ := testkit.WritePair(t, envoy)
	file, _ := testkit.WritePair(t, other)
	both := append(testkit.Must(os.ReadFile(authorities))(t), testkit.Must(os.ReadFile(file))(t)...)
	testkit.WriteFile(t, authorities, string(both))
	second := testkit.FreePort(t)
	p, first := startDecider(t, "GRPC_PORT", second, "GRPC_TLS_CERT", cert, "GRPC_TLS_KEY", key,
		"DECISION_OPEN", "true", "GRPC_TLS_CLIENT_CA", authorities, "GRPC_TLS_CLIENT_SAN", "envoy.example")
	first.Require("GET /v1/marks", 200, "")
	at := p.At(second)
	at.TLS = testkit.Trust(server, "127.0.0.1")
	byHTTP2 := func() int {
		protocols := new(http.Protocols)
		protocols.SetHTTP2(true)
		transport := &http.Transport{TLSClientConfig: at.TLS.Clone(), Protocols: protocols}
		defer transport.CloseIdleConnections()
		res := testkit.Must((&http.Client{Transport: transport}).Get("https://" + at.Addr + "/v1/marks"))(t)
		defer res.Body.Close()
		return res.StatusCode
	}
	at.Require("GET /v1/marks", 401, "")
	if status := byHTTP2(); status != 401 {
		t.Errorf("without a certificate by HTTP/2: %d", status)
	}
	at.TLS.Certificates = []tls.Certificate{envoy}
	at.Require("GET /v1/marks", 200, "")
	if status := byHTTP2(); status != 200 {
		t.Errorf("with a certificate by HTTP/2: %d", status)
	}
	at.TLS.Certificates = []tls.Certificate{other}
	if res, _, err := at.Try("GET /v1/marks"); err == nil {
		t.Errorf("a certificate for another name: %d", res.StatusCode)
	}
	p.Require("GET /metrics", 200, "\nratelimiter_grpc_certificate_expiry_timestamp_seconds ")
	for told, env := range map[string][]string{
		`GRPC_PORT: "` + second + `" is another port of DECISION_PORT, which is not set`: {"TARGET_URL", "http://127.0.0.1:1"},
		"GRPC_BIND":                {"DECISION_PORT", first.Port(), "GRPC_BIND", "0.0.0.0"},
		"is that of DECISION_PORT": {"DECISION_PORT", second},
		"GRPC_TLS_CLIENT_SAN":      {"DECISION_PORT", first.Port(), "GRPC_TLS_CLIENT_SAN", "x"},
	} {
		env = append([]string{"GRPC_PORT", second, "TARGET_URL", "none", "PORT", testkit.FreePort(t)}, env...)
		cannotStart(t, env, 2, told)
	}
}

// GRPC_UDS is a unix socket that answers as DECISION_PORT does, and to which all who reach it may connect. The socket
// of a program that has crashed is replaced; that of another one and other files are not.
func TestGRPCSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "weir.sock")
	left := testkit.Must(net.Listen("unix", socket))(t)
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	p, _ := startDecider(t, "GRPC_UDS", socket, "DECISION_TOKEN", "secret")
	ask := func(token, path string) int {
		req := testkit.Must(http.NewRequest("GET", "http://weir"+path, nil))(t)
		req.Header.Set("Authorization", "Bearer "+token)
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
		client := http.Client{Transport: &http.Transport{DialContext: dial}}
		res := testkit.Must(client.Do(req))(t)
		defer res.Body.Close()
		return res.StatusCode
	}
	if right, wrong := ask("secret", "/v1/marks"), ask("other", "/v1/marks"); right != 200 || wrong != 401 {
		t.Errorf("with the token %d, with another %d", right, wrong)
	}
	if mode := testkit.Must(os.Stat(socket))(t).Mode().Perm(); mode != 0o666 {
		t.Errorf("the socket has the permissions %v", mode)
	}
	file := filepath.Join(t.TempDir(), "file")
	testkit.WriteFile(t, file, "content")
	for _, path := range []string{socket, file} {
		cannotStart(t, []string{"TARGET_URL", "none", "DECISION_PORT", testkit.FreePort(t), "GRPC_UDS", path}, 1,
			"open GRPC_UDS: listen unix "+path)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("a file that is no socket is lost: %v", err)
	}
	p.Terminate()
	if _, err := os.Stat(socket); err == nil {
		t.Error("the file of the socket is left")
	}
	startDecider(t, "GRPC_UDS", socket, "GRPC_BIND", "0.0.0.0")
	for _, path := range []string{"/check/path/a", "/v1/marks"} {
		if status := ask("", path); status != 200 {
			t.Errorf("%s without a token: %d", path, status)
		}
	}
}
