package main

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/config"
	"weir/proxy/store/redis/redistest"
)

// A message about a setting has the value once, and what is allowed once.
func TestMessagesSayNothingTwice(t *testing.T) {
	help, _ := testkit.Ends(t, program(t, nil, "-help"), 0)
	told := 0
	for line := range strings.Lines(help) {
		name, _, _ := strings.Cut(line, " ")
		if strings.ToUpper(name) != name || strings.TrimSpace(name) == "" {
			continue
		}
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
	f := func(message string, env ...string) {
		t.Helper()
		var stderr string
		testkit.Eventually(t, "Redis answers the first attempt in time", func() bool {
			cmd := program(t, append(env, "REDIS_HOST", addr, "REDIS_TIMEOUT", "2s"))
			var told bytes.Buffer
			cmd.Stderr = &told
			out := testkit.Must(cmd.StdoutPipe())(t)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for scanner := bufio.NewScanner(out); scanner.Scan(); {
				if strings.Contains(scanner.Text(), "INFO Proxy - Ready") {
					_ = cmd.Process.Kill()
				}
			}
			_ = cmd.Wait() // the status tells
			stderr = told.String()
			return cmd.ProcessState.ExitCode() == 2
		})
		if !strings.HasPrefix(stderr, message) || strings.Count(stderr, "\n") != 1 ||
			!strings.HasSuffix(stderr, ", or start with STORE_START=anyway\n") {
			t.Errorf("%v: told %q", env, stderr)
		}
	}
	f(`proxy: REDIS_HOST: "` + addr + `" cannot be used: the store does not accept the user or the password: `)
	f(`proxy: REDIS_HOST: "`+addr+`" cannot be used: the store does not accept the user or the password: `,
		"REDIS_PASSWORD", "wrong")
	f(`proxy: REDIS_HOST: "`+addr+`" cannot be used: there is no such database: `, "REDIS_PASSWORD", "secret",
		"REDIS_DB", "99")
	launch(t, []string{"REDIS_HOST", addr, "STORE_START", "anyway"}).Logged("ERROR RedisClient - Redis is misconfigured")
}

// SIGHUP reads rules, clients and certificates again. What is faulty is an ERROR with
// the reason, and changes nothing.
func TestHangup(t *testing.T) {
	target := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		testkit.WriteFile(t, name, text)
		return name
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	key := testkit.Must(x509.MarshalPKCS8PrivateKey(target.TLS.Certificates[0].PrivateKey))(t)
	own := block("CERTIFICATE", target.Certificate().Raw)
	rules := func(limit int) string {
		return fmt.Sprintf("rules:\n  - {id: a, limit: {algorithm: fixed, limit: %d, window: 60}}\n", limit)
	}
	rulesFile, caFile := write("rules.yaml", rules(7)), write("ca.pem", foreign)
	p := launch(t, []string{"TARGET_URL", target.URL, "TARGET_CA_FILE", caFile, "ADMIN_PORT", testkit.FreePort(t),
		"ADMIN_TLS", "false",
		"RULES_FILE", rulesFile, "CLIENTS_FILE", write("clients.json", `{"acme":{"algorithm":"fixed","limit":5,"window":1}}`),
		"TLS_CERT", write("tls.crt", own), "TLS_KEY", write("tls.key", block("PRIVATE KEY", key))})
	client := target.Client() // trusts the certificate, which the proxy serves, too
	asks := func(want int) {
		t.Helper()
		res := testkit.Must(client.Get("https://" + p.addr + "/x"))(t)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("answered %d, want %d", res.StatusCode, want)
		}
	}
	reloads := 0
	hangup := func(want string) {
		t.Helper()
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		reloads++
		if line := p.LoggedTimes("INFO Proxy - Reloaded ", reloads); !strings.Contains(line, " Reloaded "+want) {
			t.Errorf("reload %d: %s, want %s", reloads, line, want)
		}
	}
	asks(502) // the target is signed by somebody else
	hangup("rules=read clients=read certificates=read log=none")
	asks(502)
	write("ca.pem", own)
	hangup("rules=read clients=read certificates=read log=none")
	asks(200)
	write("ca.pem", "nothing")
	write("tls.key", "nothing")
	write("rules.yaml", "rules:\n  - {id: a, limit: {algorithm: fixed}}\n")
	hangup("rules=failed clients=failed certificates=failed log=none")
	for _, want := range []string{
		`part="rules, clients" reason="RULES_FILE: ` + rulesFile + `: line 2: rules[0].limit`,
		`part=certificates reason="TARGET_CA_FILE: read authorities ` + caFile + `: it contains no certificate`,
		`part=certificates reason="read certificate ` + filepath.Join(dir, "tls.crt") + ` with key `,
	} {
		p.Logged("ERROR Proxy - Reload failed, the previous version stays in use " + want)
	}
	asks(200)
}

// While the store is unavailable the log does not speak of a limit.
func TestClosedModeIsLogged(t *testing.T) {
	addr := testkit.FreeAddr(t)
	p := launch(t, []string{"REDIS_HOST", addr, "STORE_FAILURE_MODE", "closed"})
	for range 3 {
		if status, body := ask(t, p.addr, "/x"); status != 503 {
			t.Errorf("answered %d %s", status, body)
		}
	}
	p.Logged("WARN RateLimiter - Requests rejected: the store is unavailable and STORE_FAILURE_MODE is closed count=")
	if lines := p.Log.Lines("limit exceeded"); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// foreign is the certificate of an authority that has signed nothing.
const foreign = `-----BEGIN CERTIFICATE-----
MIIBeTCCAR+gAwIBAgIUWq6Skcv4X0eFSL3CT9vzKhx7aQwwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHZm9yZWlnbjAeFw0yNjExMjIxOTE3NDVaFw0zNjExMTkxOTE3
NDVaMBIxEDAOBgNVBAMMB2ZvcmVpZ24wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAS9IFtdDlQ3a0M6prDlzaCY9cvQGGAE9opZx+pWcdeufd409b+IU1UrAKyMBJKF
2dYpNciySS/AtPKu5uf6DeHEo1MwUTAdBgNVHQ4EFgQU9twuNjgJA85RD0tfDfY8
PWFqUmQwHwYDVR0jBBgwFoAU9twuNjgJA85RD0tfDfY8PWFqUmQwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiAsO/E+mb9qItlN0QtrmF12Ju90xtct
S4v/w3mbwgHKdwIhAIHVls61ErmUHFw7I2pX96OeVOuqMn2PvwXsivJfsL8Y
-----END CERTIFICATE-----
`
