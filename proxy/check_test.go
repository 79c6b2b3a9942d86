package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/config"
	"weir/proxy/store/redis/redistest"
)

// A message about a setting has the value once, and what is allowed once.
func TestMessagesSayNothingTwice(t *testing.T) {
	told := 0
	for name := range settings(t) {
		for _, value := range []string{"wrong wrong", "-7", "/dev/null/wrong", "http://wrong:wrong@h/x", "0.00000017", ":,"} {
			var c config.Config
			s := service.NewSettings("proxy")
			c.Register(s)
			_, err := s.Parse(nil, func(asked string) string { return map[string]string{name: value}[asked] })
			if err == nil {
				err = check(&c)
			}
			if err == nil || !strings.HasPrefix(err.Error(), name+": ") {
				continue
			}
			told++
			message := err.Error()
			if strings.Contains(value, "@") && strings.Contains(message, "wrong:wrong") || strings.Count(message, value) > 1 ||
				strings.Count(message, "; allowed: ") > 1 || strings.Count(message, strconv.Quote(value)) > 1 ||
				strings.Contains(message, "must be one of") {
				t.Error(message)
			}
		}
	}
	if told < 100 {
		t.Errorf("%d values were refused: the test does not reach the settings", told)
	}
}

// A Redis that refuses us for good ends the start: the proxy would limit nothing.
func TestMisconfiguredRedis(t *testing.T) {
	addr := redistest.Start(t, "--requirepass", "secret").Addr()
	for _, test := range []struct {
		reason string
		env    []string
	}{
		{"the store does not accept the user or the password", nil},
		{"the store does not accept the user or the password", []string{"REDIS_PASSWORD", "wrong"}},
		{"there is no such database", []string{"REDIS_PASSWORD", "secret", "REDIS_DB", "99"}},
	} {
		var stderr testkit.Log
		testkit.Eventually(t, "Redis answers the first attempt in time", func() bool {
			stderr.Reset()
			cmd := program(t, append(test.env, "REDIS_HOST", addr, "REDIS_TIMEOUT", "2s"))
			cmd.Stderr = &stderr
			p := testkit.Start(t, cmd)
			testkit.Eventually(t, "it ends or starts", func() bool { return p.Ended() || p.Log.Count("INFO Proxy - Ready") > 0 })
			p.Kill()
			return p.Status() == 2
		})
		text, message := stderr.String(), fmt.Sprintf("proxy: REDIS_HOST: %q cannot be used: %s: ", addr, test.reason)
		if !strings.HasPrefix(text, message) || strings.Count(text, "\n") != 1 ||
			!strings.HasSuffix(text, ", or start with STORE_START=anyway\n") {
			t.Errorf("%v: %q, want one line with %q", test.env, text, message)
		}
	}
	launch(t, []string{"REDIS_HOST", addr, "STORE_START", "anyway"}).Logged("ERROR RedisClient - Redis is misconfigured")
}

// SIGHUP reads rules, clients and certificates again. What is faulty is an ERROR with
// the reason, and changes nothing.
func TestHangup(t *testing.T) {
	until := time.Now().Add(time.Hour)
	own := testkit.SelfSigned(until, "127.0.0.1")
	cert, key := testkit.WritePair(t, own)
	ca, _ := testkit.WritePair(t, testkit.SelfSigned(until)) // it has signed nothing
	rules := ruleFile(t, "rules:\n  - {id: a, limit: {algorithm: fixed, limit: 7, window: 60}}\n")
	clients := filepath.Join(t.TempDir(), "clients.json")
	testkit.WriteFile(t, clients, `{"acme":{"algorithm":"fixed","limit":5,"window":1}}`)
	target := serveTLS(t, own, func(http.ResponseWriter, *http.Request) {})
	p := launch(t, []string{"TARGET_URL", target, "TARGET_CA_FILE", ca,
		"ADMIN_PORT", testkit.FreePort(t), "ADMIN_TLS", "false", "RULES_FILE", rules, "CLIENTS_FILE", clients,
		"TLS_CERT", cert, "TLS_KEY", key})
	p.TLS = testkit.Trust(own, "127.0.0.1")
	reloads := 0
	hangup := func(want string) {
		t.Helper()
		p.Signal(syscall.SIGHUP)
		reloads++
		if line := p.LoggedTimes("INFO Proxy - Reloaded ", reloads); !strings.Contains(line, " Reloaded "+want) {
			t.Errorf("reload %d: %s, want %s", reloads, line, want)
		}
	}
	p.Require("GET /x", 502, "") // the target is signed by somebody else
	hangup("rules=read clients=read certificates=read log=none")
	p.Require("GET /x", 502, "")
	testkit.WriteFile(t, ca, string(testkit.Must(os.ReadFile(cert))(t)))
	hangup("rules=read clients=read certificates=read log=none")
	p.Require("GET /x", 200, "")
	testkit.WriteFile(t, ca, "nothing")
	testkit.WriteFile(t, key, "nothing")
	testkit.WriteFile(t, rules, "rules:\n  - {id: a, limit: {algorithm: fixed}}\n")
	hangup("rules=failed clients=failed certificates=failed log=none")
	for _, want := range []string{
		`part="rules, clients" reason="RULES_FILE: ` + rules + `: line 2: rules[0].limit`,
		`part=certificates reason="TARGET_CA_FILE: read authorities ` + ca + `: it contains no certificate`,
		`part=certificates reason="read certificate ` + cert + ` with key `,
	} {
		p.Logged("ERROR Proxy - Reload failed, the previous version stays in use " + want)
	}
	p.Require("GET /x", 200, "")
}

// While the store is unavailable the log does not speak of a limit.
func TestClosedModeIsLogged(t *testing.T) {
	addr := testkit.FreeAddr(t)
	p := launch(t, []string{"REDIS_HOST", addr, "STORE_FAILURE_MODE", "closed"})
	for range 3 {
		p.Require("GET /x", 503, "")
	}
	p.Logged("WARN RateLimiter - Requests rejected: the store is unavailable and STORE_FAILURE_MODE is closed count=")
	if lines := p.Log.Lines("limit exceeded"); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// Limits of descriptors that SIGHUP reads make lanes forget what they have refused, as any other change of
// limits does.
func TestHangupForgets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	testkit.WriteFile(t, file, "domain: a\n")
	p, decisions := startDecider(t, "RATELIMIT_CONFIG", file)
	before := decisions.Await("GET /v1/marks", 200, "")
	testkit.WriteFile(t, file, "domain: b\n")
	p.Signal(syscall.SIGHUP)
	p.Logged("INFO Proxy - Reloaded rules=none clients=none certificates=none descriptors=read ")
	testkit.Eventually(t, "refusals are forgotten",
		func() bool { return decisions.Require("GET /v1/marks", 200, "") != before })
}
