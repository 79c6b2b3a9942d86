package serve

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/target/model"
)

// Over TLS, ALPN chooses the version.
func TestTLS(t *testing.T) {
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	cfg := Config{Model: model.Default(), Loops: 2, DrainTimeout: testkit.Timeout, Seed: 1}
	cfg.CertFile, cfg.KeyFile = testkit.WritePair(t, pair)
	r := startWith(t, cfg)
	for version := 1; version <= 2; version++ {
		tr := &http.Transport{TLSClientConfig: testkit.Trust(pair, "127.0.0.1"), ForceAttemptHTTP2: version == 2}
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr}).Get("https://" + r.Addr().String() + "/api/test")
		if err != nil || res.StatusCode != 200 || res.ProtoMajor != version {
			t.Errorf("HTTP/%d: %v, %v", version, res, err)
		}
	}
	for _, protocol := range []string{"http1", "h2"} {
		r.until("one by "+protocol, func() bool {
			var text bytes.Buffer
			r.env.Metrics.Write(&text)
			return testkit.Samples(t, text.String())[`target_requests_by_protocol_total{protocol="`+protocol+`"}`] == 1
		})
	}
}
