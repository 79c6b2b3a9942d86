package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// Files that are not valid, or missing with their folder, do not end the start in place of envoyproxy/ratelimit, but
// with RATELIMIT_CONFIG they do. Nothing is said about a limit that is off.
func TestRatelimitStartsWithoutLimits(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "config")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const ask = `{"domain":"shop","descriptors":[{"entries":[{"key":"one","value":"x"}]}]}`
	file := filepath.Join(folder, "shop.yaml")
	testkit.WriteFile(t, file, "domain: shop\ndescriptors:\n- {kee: one}\n")
	env := []string{"RUNTIME_ROOT", root, "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true",
		"LOG_LEVEL", "DEBUG"}
	cmd, http, _, debug := asRatelimit(t, env...)
	const ready, none = "INFO Proxy - Ready addr=", " domains=0 limits=0"
	p := testkit.Launch(t, cmd, ready)
	p.Logged(ready + "127.0.0.1:" + debug + none)
	p.Logged("ERROR DecisionService - RUNTIME_ROOT ignored, there are no limits file=" + file + ":3 reason=")
	p.At(http).Require("GET /healthcheck", 500, "")
	p.At(http).Require("POST /json", 400, "no rate limit configuration loaded", ask)
	testkit.WriteFile(t, file, "domain: shop\ndescriptors:\n- key: one\n  rate_limit: {unit: year, requests_per_unit: 1}\n")
	p.At(http).Await("GET /healthcheck", 200, "OK")
	p.At(http).Require("POST /json", 200, `"requestsPerUnit":1`, ask)
	p.At(http).Require("POST /json", 429, "", ask)
	p.Logged(`DEBUG DecisionService - Decided domain=shop code=OVER_LIMIT descriptors="(one=x) OVER_LIMIT"`)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.At(http).Await("GET /healthcheck", 500, "")
	p.At(http).Require("POST /json", 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`, ask)

	cmd, http, _, debug = asRatelimit(t, "RUNTIME_ROOT", root)
	p = testkit.Launch(t, cmd, ready)
	p.Logged(ready + "127.0.0.1:" + debug + none)
	p.Logged("WARN DecisionService - There are no limits for descriptors until RUNTIME_ROOT has files folder=" + folder)
	p.At(http).Require("GET /healthcheck", 200, "OK")
	for _, part := range []string{"algorithm=off", "to Off"} {
		if lines := p.Log.Lines(part); len(lines) > 0 {
			t.Errorf("logged %q, of which there is nothing to say", lines)
		}
	}

	missing := filepath.Join(root, "data")
	cmd, http, _, _ = asRatelimit(t, "RUNTIME_ROOT", missing, "RUNTIME_SUBDIRECTORY", "ratelimit")
	p = testkit.Launch(t, cmd, ready)
	p.Logged("WARN DecisionService - There are no limits for descriptors until RUNTIME_ROOT, RUNTIME_SUBDIRECTORY " +
		"has files folder=" + missing + "/ratelimit/config reason=\"no such file or directory\"")
	p.At(http).Require("GET /healthcheck", 200, "OK")
	p.At(http).Require("POST /json", 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`, ask)
	if err := os.MkdirAll(filepath.Join(missing, "ratelimit", "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, filepath.Join(missing, "ratelimit", "config", "shop.yaml"),
		"domain: shop\ndescriptors:\n- key: one\n  rate_limit: {unit: year, requests_per_unit: 1}\n")
	p.At(http).Await("POST /json", 429, "OVER_LIMIT", ask)

	cmd, _, _, _ = asRatelimit(t, "RATELIMIT_CONFIG", folder)
	if _, line := testkit.RequireExit(t, cmd, 2); !strings.HasPrefix(line, "proxy: RATELIMIT_CONFIG: ") {
		t.Errorf("told %q", line)
	}
}

// What is wrong with settings in place of envoyproxy/ratelimit is told by the names of its variables.
func TestFaultsAsRatelimit(t *testing.T) {
	port := testkit.FreePort(t)
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, test := range []struct {
		told string
		env  []string
	}{
		{`PORT, read as DECISION_PORT: "` + port + `" is that of DEBUG_PORT; allowed: another port, or 0 for none`,
			[]string{"PORT", port, "DEBUG_PORT", port}},
		{`PORT, read as DECISION_PORT: "6070" is that of DEBUG_PORT;`, []string{"PORT", "6070", "DEBUG_PORT", ""}},
		{`GRPC_PORT: "` + port + `" is that of PORT; allowed: another port, or 0: PORT answers the same`,
			[]string{"PORT", port, "GRPC_PORT", port}},
		{"a PEM certificate and, in GRPC_SERVER_TLS_KEY, its key",
			[]string{"GRPC_SERVER_USE_TLS", "true", "GRPC_SERVER_TLS_CERT", missing, "GRPC_SERVER_TLS_KEY", missing}},
	} {
		cmd, _, _, _ := asRatelimit(t, test.env...)
		if _, line := testkit.RequireExit(t, cmd, 2); !strings.Contains(line, test.told) || strings.Count(line, "\n") != 1 {
			t.Errorf("%q: %q, want one line with %q", test.env, line, test.told)
		}
	}
}
