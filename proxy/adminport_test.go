package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
)

// With TLS_CERT the admin port has TLS too, unless ADMIN_TLS denies it.
func TestAdminPortTLS(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	cert, key := testkit.WritePair(t, testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1"))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for setting, scheme := range map[string]string{"true": "https", "false": "http"} {
		port := testkit.FreePort(t)
		p := launch(t, []string{"TARGET_URL", target.URL, "TLS_CERT", cert, "TLS_KEY", key, "ADMIN_PORT", port, "ADMIN_TLS", setting})
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
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "target", r.URL.Path) }))
	defer target.Close()
	p := launch(t, []string{"TARGET_URL", target.URL, "ADMIN_PORT", testkit.FreePort(t), "HEALTH_ON_DATA_PORT", "true"})
	for path, want := range map[string]string{
		"/actuator/health": `"status":"UP"`, "/actuator/health/readiness": `"status":"UP"`,
		"/actuator/healthy": "target/actuator/healthy", "/actuator/health/": "target/actuator/health/",
		"/actuator/prometheus": "target/actuator/prometheus", "/metrics": "target/metrics", "/config/limits": "target/config/limits",
	} {
		if status, body := ask(t, p.addr, path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s, want something with %q", path, status, body, want)
		}
	}
}
