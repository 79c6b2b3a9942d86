package main

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
)

// An expired certificate is served, because clients may accept it. It is logged when it is loaded
// and when it is loaded again, and a metric has its expiry date.
func TestExpiredCertificate(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	expired := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	cert, key := testkit.WritePair(t, testkit.SelfSigned(expired))
	port := testkit.FreePort(t)
	p := launch(t, []string{"TARGET_URL", target.URL, "TLS_CERT", cert, "TLS_KEY", key, "ADMIN_PORT", port, "ADMIN_TLS", "false"})
	p.Logged(`WARN TLS - Clients refuse the certificate reason="` + cert + ` expired on 2020-02-03T04:05:06Z"`)
	if _, body := ask(t, "127.0.0.1:"+port, "/metrics"); !strings.Contains(body, "\nratelimiter_certificate_expiry_timestamp_seconds 1.580702706e+09\n") {
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
	server, client, stranger := testkit.SelfSigned(until, "127.0.0.1"), testkit.SelfSigned(until), testkit.SelfSigned(until)
	cert, key := testkit.WritePair(t, server)
	authority, _ := testkit.WritePair(t, client)
	port := testkit.FreePort(t)
	p := startMaster(t, port, "DECISION_BIND", "0.0.0.0", "DECISION_TLS_CERT", cert, "DECISION_TLS_KEY", key, "DECISION_TLS_CLIENT_CA", authority)
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
		res, err := transport.RoundTrip(req)
		if err != nil {
			return 0, err
		}
		res.Body.Close()
		return res.StatusCode, nil
	}
	testkit.Eventually(t, "documents are shown", func() bool { status, _ := ask("/v1/marks", "secret"); return status == 200 })
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
			t.Errorf("%s with %d certificates and token %q: %d, %v, want %d", test.path, len(test.shown), test.token, status, err, test.status)
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
