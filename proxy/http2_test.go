package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/data/chart/charttest"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	target "weir/target/serve"
)

// A warning names HTTP/2 settings that have no effect.
func TestHTTP2WithoutEffect(t *testing.T) {
	for want, env := range map[string][]string{
		"HTTP2_STREAMS_MAX has no effect without TLS_CERT":             {"HTTP2_STREAMS_MAX", "5"},
		"HTTP2_REQUESTS_MAX has no effect with HTTP2=off":              {"HTTP2_REQUESTS_MAX", "5", "HTTP2", "off"},
		"TARGET_PROTOCOL has no effect while no target has https://":   {"TARGET_PROTOCOL", "h2"},
		"TARGET_PROTOCOL has no effect while no target has http://":    {"TARGET_PROTOCOL", "h2c", "TARGET_URL", "https://a"},
		"TARGET_STREAMS_MAX has no effect while no target gets HTTP/2": {"TARGET_STREAMS_MAX", "5"},
	} {
		launch(t, env).Logged("WARN Proxy - " + want)
	}
}

// nginxHTTP2 answers by HTTP/2 only, without TLS and with it, and by HTTP/1.1 for HAProxy. Between these two HTTP/2
// would lose requests whose answer comes before their end.
const nginxHTTP2 = `
daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
  access_log off; ssl_certificate %[4]s; ssl_certificate_key %[5]s; root %[1]s;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u;
  scgi_temp_path %[1]s/s;
  server {
    listen %[2]s http2; listen %[3]s http2 ssl; listen %[6]s;
    location /api/test { return 200 "OK"; }
    location /large {}
  }
}`

// haproxyHTTP2 does so in front of nginx.
const haproxyHTTP2 = `
defaults
  mode http
  timeout connect 1m
  timeout client 1m
  timeout server 1m
listen front
  bind %[2]s proto h2
  bind %[3]s ssl crt %[4]s alpn h2
  server nginx %[1]s
`

// large is what nginx has at /large.
var large = strings.Repeat("0123456789abcdef\n", 200_000)

// Programs of others are clients and targets. With and without TLS, and whatever the protocol of the other side, each
// client gets from each target what it has asked for.
func TestHTTP2Peers(t *testing.T) {
	curl, h2load := testkit.FindOrSkip(t, "curl"), testkit.FindOrSkip(t, "h2load")
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	cert, key := testkit.WritePair(t, pair)
	body := filepath.Join(t.TempDir(), "body")
	testkit.WriteFile(t, body, large[:100_000])
	targets := map[string][2]string{"target": {simulated(t, "", ""), simulated(t, cert, key)}}
	targets["nginx"], targets["haproxy"] = peers(t, cert, key)
	for name, addrs := range targets {
		for i, addr := range addrs {
			for scheme, env := range map[string][]string{"http": nil, "https": {"TLS_CERT", cert, "TLS_KEY", key}} {
				protocol := []string{"h2c", "h2"}[i]
				t.Run(scheme+" to "+name+" by "+protocol, func(t *testing.T) {
					t.Parallel()
					p := launch(t, slices.Concat(env, limited(10_000), []string{"HTTP2", "all", "GATE", "off",
						"TARGET_URL", protocol + "://" + addr, "TARGET_CA_FILE", cert}))
					base := scheme + "://" + p.Addr
					out, _ := testkit.RequireExit(t, exec.Command(h2load, "-n", "1000", "-c", "4", "-m", "32", "-d", body,
						base+"/api/test"), 0)
					testkit.Contains(t, out, "status codes: 1000 2xx, 0 3xx, 0 4xx, 0 5xx")
					for _, version := range []string{"--http2-prior-knowledge", "--http1.1"} {
						out, _ := testkit.RequireExit(t, exec.Command(curl, "-sS", "--cacert", cert, version, base+"/large"), 0)
						if out != large && (name != "target" || out != "Not Found") {
							t.Errorf("curl %s has received %d bytes", version, len(out))
						}
					}
				})
			}
		}
	}
}

// The proxy passes h2spec over TLS.
func TestHTTP2Spec(t *testing.T) {
	dir := testkit.BuildOrSkip(t, "../internal/net/http2/h2spec", "github.com/summerwind/h2spec/cmd/h2spec")
	cert, key := testkit.WritePair(t, testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1"))
	p := launch(t, slices.Concat(limited(10_000), []string{"HTTP2", "all", "GATE", "off",
		"TLS_CERT", cert, "TLS_KEY", key, "TARGET_URL", "http://" + simulated(t, "", "")}))
	host, port, _ := net.SplitHostPort(p.Addr)
	out, _ := exec.Command(filepath.Join(dir, "h2spec"),
		"-t", "-k", "-h", host, "-p", port, "-P", "/model", "-o", "20").CombinedOutput()
	if !strings.Contains(string(out), "145 tests, 145 passed, 0 skipped, 0 failed") {
		_, failures, _ := strings.Cut(string(out), "Failures:")
		t.Errorf("h2spec: %s", failures)
	}
}

// simulated starts the program target, and returns its address.
func simulated(t *testing.T, cert, key string) string {
	cfg := target.Default()
	cfg.Loops, cfg.CertFile, cfg.KeyFile = 1, cert, key
	s := testkit.Must(target.Start(&service.Env{Addr: testkit.FreeAddr(t), Health: new(service.Health),
		Metrics: metric.New(), Log: new(testkit.Log).Logger()}, cfg))(t)
	t.Cleanup(s.Drain)
	return s.Addr().String()
}

// peers starts nginx, and HAProxy in front of it, and returns the addresses of each without and with TLS.
func peers(t *testing.T, cert, key string) (nginx, haproxy [2]string) {
	dir, older := t.TempDir(), testkit.FreeAddr(t)
	write := func(name, text string, args ...any) string {
		testkit.WriteFile(t, filepath.Join(dir, name), fmt.Sprintf(text, args...))
		return filepath.Join(dir, name)
	}
	for _, addrs := range []*[2]string{&nginx, &haproxy} {
		addrs[0], addrs[1] = testkit.FreeAddr(t), testkit.FreeAddr(t)
	}
	write("large", "%s", large)
	file := write("nginx.conf", nginxHTTP2, dir, nginx[0], nginx[1], cert, key, older)
	testkit.StartAt(t, exec.Command(testkit.FindOrSkip(t, "nginx"), "-p", dir, "-c", file), nginx[1])
	both := write("pair", "%s%s", testkit.Must(os.ReadFile(cert))(t), testkit.Must(os.ReadFile(key))(t))
	file = write("haproxy.cfg", haproxyHTTP2, older, haproxy[0], haproxy[1], both)
	testkit.StartAt(t, exec.Command(testkit.FindOrSkip(t, "haproxy"), "-db", "-f", file), haproxy[1])
	return nginx, haproxy
}

// A browser gets a page and what it loads by HTTP/2, many at the same time.
func TestBrowserByHTTP2(t *testing.T) {
	cert, key := testkit.WritePair(t, testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1"))
	p := launch(t, []string{"HTTP2", "tls", "TLS_CERT", cert, "TLS_KEY", key, "TARGET_URL",
		serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path == "/" {
				fmt.Fprint(w, "<!DOCTYPE html><pre></pre>"+charttest.Script(`
					const got = await Promise.all([...Array(50).keys()].map(async i => {
						const answer = await fetch("/" + i, {method: "POST", body: "b".repeat(1000 * i)});
						return (await answer.text()).length - 1000 * i;
					}));
					const by = new Set(performance.getEntries().map(e => e.nextHopProtocol).filter(p => p));
					document.querySelector("pre").textContent = "lengths " + new Set(got).size + " by " + [...by];`))
				return
			}
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(append(body, r.URL.Path[:2]...))
		})})
	testkit.Contains(t, charttest.DOM(t, "https://"+p.Addr+"/", 10*time.Second), "<pre>lengths 1 by h2</pre>")
}
