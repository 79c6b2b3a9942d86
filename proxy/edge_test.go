package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// The targets are changed by POST while requests come: none is lost. Their
// endpoints need ADMIN_TOKEN, and the log does not tell it.
func TestTargetsAreReplaced(t *testing.T) {
	const token = "open-sesame"
	name := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }
	}
	one, two := httptest.NewServer(name("one")), httptest.NewServer(name("two"))
	defer one.Close()
	defer two.Close()
	p := launch(t, []string{"TARGET_URL", one.URL, "RATE_LIMIT_LIMIT", "1000000", "RATE_LIMIT_WINDOW", "3600",
		"ADMIN_TOKEN", token, "GATE", "off"})
	if first := p.Logged("INFO Proxy - Started version="); strings.Contains(first, token) {
		t.Errorf("the log tells the token: %s", first)
	}
	change := func(body, fields string, want int) string {
		status, text := exchange(t, p.addr,
			fmt.Sprintf("POST /config/targets HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s",
				fields, len(body), body))
		if status != want {
			t.Errorf("POST %s with %q: %d %s, want %d", body, fields, status, text, want)
		}
		return text
	}
	const allowed = "Authorization: Bearer " + token + "\r\n"
	both, second := fmt.Sprintf(`{"targets":[%q,%q]}`, one.URL, two.URL), fmt.Sprintf(`{"targets":[%q]}`, two.URL)
	change(both, "", 403)
	change(both, "Authorization: Bearer open\r\n", 403)
	if text := change(`{"targets":["http://a:1","ftp://b"]}`, allowed, 400); !strings.Contains(text,
		`"path":"targets[1]"`) {
		t.Errorf("told %s", text)
	}
	if text := change(fmt.Sprintf(`{"targets":[%q,%q]}`, one.URL, one.URL), allowed, 400); !strings.Contains(text,
		"is listed twice") {
		t.Errorf("told %s", text)
	}
	if status, text := exchange(t, p.addr, "GET /config/targets HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+allowed+
		"\r\n"); status != 200 || strings.Contains(text, two.URL) || !strings.Contains(text, `"url":"`+one.URL) {
		t.Errorf("GET /config/targets: %d %s", status, text)
	}
	var asked atomic.Int64
	var load sync.WaitGroup
	var over atomic.Bool
	for range 4 {
		load.Go(func() {
			for !over.Load() {
				if status, body := ask(t, p.addr, "/x"); status != 200 {
					t.Errorf("answered %d %s", status, body)
					return
				}
				asked.Add(1)
			}
		})
	}
	for i := range 40 {
		change([]string{both, second}[i%2], allowed, 200)
		for since := asked.Load(); asked.Load() < since+8 && !t.Failed(); time.Sleep(time.Millisecond) {
		}
	}
	over.Store(true)
	load.Wait()
	if _, body := ask(t, p.addr, "/x"); body != "two" {
		t.Errorf("after the last change %q answers", body)
	}
}

// With ADMIN_PORT the own endpoints are there and nowhere else, and their paths
// are the target's at the data port.
func TestAdminPort(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		fmt.Fprint(w, "target", r.URL.Path)
	}))
	defer target.Close()
	port := testkit.FreePort(t)
	p := launch(t, []string{"TARGET_URL", target.URL, "ADMIN_PORT", port})
	for _, path := range []string{"/metrics", "/config/limits", "/config/targets", "/actuator/health", "/reload"} {
		if _, body := ask(t, p.addr, path); body != "target"+path {
			t.Errorf("%s at the data port: %.200s", path, body)
		}
	}
	for path, part := range map[string]string{"/metrics": "\nratelimiter_client_connections ",
		"/config/limits":  `"source":"default"`,
		"/config/targets": `"status":"up"`, "/actuator/health": `"status":"UP"`} {
		if status, body := ask(t, "127.0.0.1:"+port, path); status != 200 || !strings.Contains(body, part) {
			t.Errorf("%s at the admin port: %d %.200s, want something with %q", path, status, body, part)
		}
	}
	if status, body := ask(t, "127.0.0.1:"+port, "/x"); status != 404 {
		t.Errorf("/x at the admin port: %d %s", status, body)
	}
}

// exchange sends a request that closes its connection.
func exchange(t *testing.T, addr, request string) (int, string) {
	t.Helper()
	c := testkit.Dial(t, addr)
	defer c.Close()
	return exchangeOn(c, request)
}

// exchangeOn sends a request over c, which has served before or not.
func exchangeOn(c *testkit.Conn, request string) (int, string) {
	c.T.Helper()
	c.Send(request)
	res, body := c.Answer("GET")
	return res.StatusCode, body
}

// With TLS_CERT the admin port has TLS too, unless ADMIN_TLS denies it.
func TestAdminPortTLS(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	cert, key := testkit.WritePair(t, testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1"))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for setting, scheme := range map[string]string{"true": "https", "false": "http"} {
		port := testkit.FreePort(t)
		p := launch(t, []string{"TARGET_URL", target.URL, "TLS_CERT", cert, "TLS_KEY", key, "ADMIN_PORT", port,
			"ADMIN_TLS", setting})
		res, err := client.Get(scheme + "://127.0.0.1:" + port + "/config/limits")
		if err != nil {
			t.Fatalf("ADMIN_TLS=%s: %v", setting, err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || !strings.Contains(string(body), `"source":"default"`) {
			t.Errorf("ADMIN_TLS=%s: %d %s %v", setting, res.StatusCode, body, err)
		}
		if setting == "true" {
			if status, body := ask(t, "127.0.0.1:"+port, "/config/limits"); status != 400 {
				t.Errorf("without TLS: %d %s", status, body)
			}
		}
		_ = p.Process.Kill()
	}
}

// The admin port is open on loopback only, wherever the data port is, unless
// ADMIN_BIND says otherwise.
func TestAdminBind(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	for bind, elsewhere := range map[string]bool{"": false, "127.0.0.3": true} {
		port := testkit.FreePort(t)
		launch(t, []string{"TARGET_URL", target.URL, "BIND", "127.0.0.2", "ADMIN_PORT", port, "ADMIN_BIND", bind})
		for host, want := range map[string]bool{"127.0.0.1": !elsewhere, "127.0.0.2": false, "127.0.0.3": elsewhere} {
			c, err := net.Dial("tcp", net.JoinHostPort(host, port))
			if err == nil {
				c.Close()
			}
			if (err == nil) != want {
				t.Errorf("ADMIN_BIND=%q: connecting to %s: %v, want an open port: %t", bind, host, err, want)
			}
		}
	}
}

// HEALTH_ON_DATA_PORT has health answered on both ports, and nothing else.
func TestHealthOnDataPort(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		fmt.Fprint(w, "target", r.URL.Path)
	}))
	defer target.Close()
	p := launch(t, []string{"TARGET_URL", target.URL, "ADMIN_PORT", testkit.FreePort(t), "HEALTH_ON_DATA_PORT", "true"})
	for path, want := range map[string]string{
		"/actuator/health": `"status":"UP"`, "/actuator/health/readiness": `"status":"UP"`,
		"/actuator/healthy": "target/actuator/healthy", "/actuator/health/": "target/actuator/health/",
		"/actuator/prometheus": "target/actuator/prometheus", "/metrics": "target/metrics",
		"/config/limits": "target/config/limits",
	} {
		if status, body := ask(t, p.addr, path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s, want something with %q", path, status, body, want)
		}
	}
}

// An expired certificate is served, because clients may accept it. It is logged when it is loaded
// and when it is loaded again, and a metric has its expiry date.
func TestExpiredCertificate(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	expired := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	cert, key := testkit.WritePair(t, testkit.SelfSigned(expired))
	port := testkit.FreePort(t)
	p := launch(t, []string{"TARGET_URL", target.URL, "TLS_CERT", cert, "TLS_KEY", key, "ADMIN_PORT", port,
		"ADMIN_TLS", "false"})
	p.Logged(`WARN TLS - Clients refuse the certificate reason="` + cert + ` expired on 2020-02-03T04:05:06Z"`)
	if _, body := ask(t, "127.0.0.1:"+port, "/metrics"); !strings.Contains(body,
		"\nratelimiter_certificate_expiry_timestamp_seconds 1.580702706e+09\n") {
		t.Errorf("the metric with the date is not there:\n%s", body)
	}
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
	port := testkit.FreePort(t)
	p := startMaster(t, port, "DECISION_BIND", "0.0.0.0", "DECISION_TLS_CERT", cert, "DECISION_TLS_KEY", key,
		"DECISION_TLS_CLIENT_CA", authority)
	url := "https://127.0.0.1:" + port
	ask := func(path, token string, shown ...tls.Certificate) (int, error) {
		trust := testkit.Trust(server, "")
		trust.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if shown == nil {
				return new(tls.Certificate), nil
			}
			return &shown[0], nil // whatever the server would like
		}
		transport := &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}
		req := testkit.Must(http.NewRequest("GET", url+path, http.NoBody))(t)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("X-Forwarded-For", "192.0.2.1")
		res, err := transport.RoundTrip(req)
		if err != nil {
			return 0, err
		}
		res.Body.Close()
		return res.StatusCode, nil
	}
	testkit.Eventually(t, "documents are shown",
		func() bool { status, _ := ask("/v1/marks", "secret"); return status == 200 })
	for _, test := range []struct {
		path, token string
		shown       []tls.Certificate
		status      int
	}{
		{"/check/path/x", "", []tls.Certificate{client}, 200},
		{"/v1/marks", "", []tls.Certificate{client}, 200},
		{"/check/path/x", "secret", nil, 200},
		{"/check/path/x", "", nil, 403},
		{"/v1/marks", "", nil, 401},
		{"/v1/marks", "wrong", nil, 401},
	} {
		if status, err := ask(test.path, test.token, test.shown...); status != test.status {
			t.Errorf("%s with %d certificates and token %q: %d, %v, want %d", test.path, len(test.shown), test.token, status,
				err, test.status)
		}
	}
	if status, err := ask("/check/path/x", "", stranger); err == nil {
		t.Errorf("a stranger's certificate: %d", status)
	}
	p.gets("GET /metrics", 200, "\nratelimiter_decision_certificate_expiry_timestamp_seconds ")
	s := startSidecar(t, "REMOTE_URL", url, "REMOTE_CA_FILE", cert)
	s.gets("GET /x", 200, "/x")
	testkit.Eventually(t, "the sidecar is connected", func() bool { // a handshake on a busy machine may be late
		_, text := s.call("GET /metrics")
		return strings.Contains(text, "\nratelimiter_remote_connected 1\n")
	})
	for _, wrong := range []struct {
		told string
		env  []string
	}{
		{"DECISION_TLS_KEY", []string{"DECISION_TLS_CERT", cert}},
		{"DECISION_TLS_CLIENT_CA", []string{"DECISION_TLS_CLIENT_CA", cert}},
		{"no such file", []string{"DECISION_TLS_CERT", cert, "DECISION_TLS_KEY", key, "DECISION_TLS_CLIENT_CA", key + "x"}},
		{"DECISION_TLS_CERT", []string{"DECISION_TLS_CERT", key, "DECISION_TLS_KEY", key}},
	} {
		_, told := testkit.Ends(t, program(t, append(wrong.env, "DECISION_PORT", port, "TARGET_URL", "none")), 2)
		if !strings.Contains(told, wrong.told) || strings.Count(told, "\n") != 1 {
			t.Errorf("%q: %q, want one line with %q", wrong.env, told, wrong.told)
		}
	}
}
