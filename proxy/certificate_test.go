package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
)

// An expired certificate is served, as clients may not care; the log tells of it when it
// is loaded and when it is taken anew, and a metric has the date.
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
