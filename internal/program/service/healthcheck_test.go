package service

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// edge returns a program with the settings that move its endpoints.
func edge() Program {
	var port int
	var cert, bind string
	var secure bool
	p := doing(nothing)
	p.Settings = func(s *Settings) {
		s.Add(SettingList{
			{Name: "ADMIN_PORT", Default: "0", Value: Int(&port, 0, 65535), Help: "port of the own endpoints"},
			{Name: "ADMIN_BIND", Default: "127.0.0.1", Value: String(&bind), Help: "their address"},
			{Name: "ADMIN_TLS", Default: "true", Value: Bool(&secure), Help: "whether they have TLS"},
			{Name: "TLS_CERT", Value: String(&cert), Help: "certificate"},
		})
	}
	return p
}

// The check asks where the settings say that the program answers.
func TestHealthURL(t *testing.T) {
	f := func(want string, args string, env ...string) {
		t.Helper()
		p := edge()
		s := NewSettings(p.Name)
		var c common
		c.register(s, p.Port)
		p.Settings(s)
		if _, err := s.Parse(append(strings.Fields(args), "-healthcheck"), environment(env...)); err != nil {
			t.Fatal(err)
		}
		url, err := healthURL(s, &c)
		if err != nil {
			url = err.Error()
		}
		if url != want {
			t.Errorf("%s %v: have %s, want %s", args, env, url, want)
		}
	}
	const path = "/actuator/health/readiness"
	f("http://127.0.0.1:8082"+path, "")
	f("http://127.0.0.1:9000"+path, "", "PORT=9000")
	f("http://127.0.0.1:9001"+path, "", "SERVER_PORT=9001")
	f("http://127.0.0.1:9002"+path, "-port 9002", "PORT=9000")
	f("http://10.0.0.1:8082"+path, "", "BIND=10.0.0.1")
	f("http://[::1]:8082"+path, "", "BIND=::")
	f("http://[fe80::1]:8082"+path, "", "BIND=fe80::1")
	f("http://localhost:8082"+path, "", "BIND=localhost")
	f("https://127.0.0.1:8443"+path, "", "TLS_CERT=cert.pem", "PORT=8443")
	f("https://127.0.0.1:9082"+path, "", "TLS_CERT=cert.pem", "PORT=8443", "ADMIN_PORT=9082")
	f("http://127.0.0.1:9082"+path, "", "TLS_CERT=cert.pem", "PORT=8443", "ADMIN_PORT=9082", "ADMIN_TLS=false")
	f("http://127.0.0.1:9082"+path, "", "BIND=10.0.0.1", "ADMIN_PORT=9082")
	f("http://10.0.0.2:9082"+path, "", "BIND=10.0.0.1", "ADMIN_PORT=9082", "ADMIN_BIND=10.0.0.2")
	f("http://127.0.0.1:9082"+path, "", "ADMIN_PORT=9082", "ADMIN_BIND=0.0.0.0")
	f("http://127.0.0.1:9082"+path, "", "ADMIN_PORT=9082", "PORT=0")
	f(`PORT: "0" is any free port, so the port is unknown; allowed: the port that the program has`, "", "PORT=0")
}

// check runs the health check of a program at a server of the test.
func check(t *testing.T, server *httptest.Server, args ...string) outcome {
	t.Helper()
	at := testkit.Must(url.Parse(server.URL))(t)
	env := []string{"BIND=127.0.0.1", "PORT=" + at.Port()}
	if server.TLS != nil {
		env = append(env, "TLS_CERT=cert.pem")
	}
	o := start(t, edge(), nil, args, env...)
	o.stdout = strings.ReplaceAll(o.stdout, server.URL, "URL")
	o.stderr = strings.ReplaceAll(o.stderr, server.URL, "URL")
	return o
}

func TestHealthCheck(t *testing.T) {
	e := env()
	own := NewEndpoints(e)
	server := httptest.NewServer(own)
	defer server.Close()
	secure := httptest.NewTLSServer(own) // nobody's authority signed it
	defer secure.Close()
	f := func(s *httptest.Server, want outcome, args ...string) {
		t.Helper()
		if have := check(t, s, args...); have != want {
			t.Errorf("%v:\nhave %+v\nwant %+v", args, have, want)
		}
	}
	const ready, live = "URL/actuator/health/readiness", "URL/actuator/health"
	for _, s := range []*httptest.Server{server, secure} {
		e.Health.SetReady(false)
		f(s, outcome{1, "", "proxy: " + ready + ": 503 Service Unavailable OUT_OF_SERVICE\n"}, "-healthcheck")
		f(s, outcome{0, "proxy: " + live + ": 200 OK UP\n", ""}, "-healthcheck=liveness")
		e.Health.SetReady(true)
		f(s, outcome{0, "proxy: " + ready + ": 200 OK UP\n", ""}, "-healthcheck")
		f(s, outcome{0, "proxy: " + ready + ": 200 OK UP\n", ""}, "-healthcheck=readiness")
	}
	// A component that is down is told, and is no reason by itself.
	e.Health.Component("store", func() any { return map[string]string{"status": "DOWN"} })
	f(server, outcome{0, "proxy: " + ready + ": 200 OK UP\n", ""}, "-healthcheck")
}

// Nothing but a program that says so is well.
func TestHealthCheckOfOthers(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.Handle("/actuator/health/readiness", http.RedirectHandler("/well", http.StatusFound))
	mux.HandleFunc("/well", func(http.ResponseWriter, *http.Request) { t.Error("a redirect is followed") })
	mux.HandleFunc("/actuator/health", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("{\"status\":\"not\\nhere\"}"))
	})
	f := func(stderr string, args ...string) {
		t.Helper()
		if o := check(t, server, args...); o.status != 1 || o.stdout != "" || !strings.HasPrefix(o.stderr, stderr) ||
			strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%v: %+v, want stderr %q", args, o, stderr)
		}
	}
	f("proxy: URL/actuator/health/readiness: 302 Found\n", "-healthcheck")
	f("proxy: URL/actuator/health: 404 Not Found not here\n", "-healthcheck=liveness")
	server.URL = "http://" + testkit.FreeAddr(t)
	f(`proxy: Get "URL/actuator/health/readiness": dial tcp `, "-healthcheck")
}

func TestHealthCheckUsage(t *testing.T) {
	f := func(p Program, stderr string, args ...string) {
		t.Helper()
		if o := start(t, p, nil, args); o != (outcome{2, "", stderr}) {
			t.Errorf("%v: %+v, want stderr %q", args, o, stderr)
		}
	}
	f(edge(), `proxy: invalid boolean value "soon" for -healthcheck: allowed: nothing, readiness, liveness; -help lists the settings`+"\n", "-healthcheck=soon")
	f(edge(), "proxy: PORT: \"x\" is not a whole number; allowed: 0 … 65535\n", "-healthcheck", "-port", "x")
	silent := doing(nothing)
	silent.Port = 0
	f(silent, "proxy: proxy serves nothing that could be asked for its health; -help lists the settings\n", "-healthcheck")
}

// -help tells of the flag where there is something to check.
func TestHealthCheckHelp(t *testing.T) {
	f := func(port int, want bool) {
		t.Helper()
		p := edge()
		p.Port = port
		var stdout bytes.Buffer
		run(p, process{args: []string{"-help"}, env: environment(), stdout: &stdout, stderr: &stdout})
		if strings.Contains(stdout.String(), "-healthcheck") != want {
			t.Errorf("port %d:\n%s", port, stdout.String())
		}
	}
	f(8082, true)
	f(0, false)
}
