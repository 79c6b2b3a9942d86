package main

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"testing"

	"weir/internal/service"
	"weir/internal/testkit"
	"weir/proxy/config"
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
				strings.Count(message, "; allowed: ") > 1 || strings.Count(message, strconv.Quote(value)) > 1 || strings.Contains(message, "must be one of") {
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
	addr := startRedis(t, "--requirepass", "secret")
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
		if !strings.HasPrefix(stderr, message) || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, ", or start with STORE_START=anyway\n") {
			t.Errorf("%v: told %q", env, stderr)
		}
	}
	f(`proxy: REDIS_HOST: "` + addr + `" cannot be used: the store does not accept the user or the password: `)
	f(`proxy: REDIS_HOST: "`+addr+`" cannot be used: the store does not accept the user or the password: `, "REDIS_PASSWORD", "wrong")
	f(`proxy: REDIS_HOST: "`+addr+`" cannot be used: there is no such database: `, "REDIS_PASSWORD", "secret", "REDIS_DB", "99")
	launch(t, []string{"REDIS_HOST", addr, "STORE_START", "anyway"}).Logged("ERROR RedisClient - Redis is misconfigured")
}
