package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/goccy/go-json"
)

// healthCheckTimeout bounds how long a program may take to answer. Keep it below the
// timeout that an orchestrator gives the check.
const healthCheckTimeout = 3 * time.Second

// healthAnswerMax bounds the part of the answer that is read.
const healthAnswerMax = 64 << 10

// setQuestion sets the flag -healthcheck. Like -version it is a command, with the kind of
// check as its value. Without a value, when text is true, it means readiness, so that
// waiting for a program means waiting until it serves.
func (s *Settings) setQuestion(text string) error {
	switch text {
	case "true", "readiness":
		s.question = readinessPath
	case "liveness":
		s.question = livenessPath
	default:
		return errors.New("allowed: nothing, readiness, liveness")
	}
	return nil
}

// checkHealth asks the program that runs with the same settings for its health, and
// writes one line if it is healthy. It is for containers without a shell, where the
// program's own binary is the check.
func checkHealth(s *Settings, c *common, stdout io.Writer) error {
	url, err := healthURL(s, c)
	if err != nil {
		return err
	}
	said, err := askHealth(context.Background(), url)
	if err == nil {
		fmt.Fprintf(stdout, "%s: %s\n", s.program, said)
	}
	return err
}

// healthURL returns the health URL of a program with these settings. ADMIN_PORT moves a
// program's own endpoints to another port, with the address ADMIN_BIND. With TLS_CERT its
// ports have TLS, unless ADMIN_TLS is false for that one.
func healthURL(s *Settings, c *common) (string, error) {
	if !c.serves {
		return "", &UsageError{s.program + " serves nothing that could be asked for its health"}
	}
	scheme, host, port, secure := "http", c.bind, s.Text("PORT"), s.Text("TLS_CERT") != ""
	if admin := s.Text("ADMIN_PORT"); admin != "" && admin != "0" {
		host, port, secure = s.Text("ADMIN_BIND"), admin, secure && s.Text("ADMIN_TLS") != "false"
	}
	if secure {
		scheme = "https"
	}
	if port == "0" {
		return "", &SettingError{Name: "PORT", Value: "0", Problem: "is any free port, so the port is unknown",
			Allowed: "the port that the program has"}
	}
	return scheme + "://" + net.JoinHostPort(ownHost(host), port) + s.question, nil
}

// ownHost returns the host under which a program that listens on bind is reached from its
// own machine.
func ownHost(bind string) string {
	a, err := netip.ParseAddr(bind)
	switch {
	case bind == "" || err == nil && a.IsUnspecified() && a.Is4():
		return "127.0.0.1"
	case err == nil && a.IsUnspecified():
		return "::1"
	}
	return bind
}

// askHealth returns what the program at url says of its health in one line, or
// why it is not healthy.
func askHealth(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, healthCheckTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	// The certificate is not verified: it names the host that clients know, not this one,
	// and may be renewed at this moment. A process that could answer in the program's place already
	// controls its network. Nothing secret is sent, only the status is used, and no other
	// server is asked, neither a proxy of the environment nor the target of a redirect.
	client := http.Client{
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(req)
	if err != nil {
		return "", err // err names method and URL
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, healthAnswerMax))
	if err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", url, err)
	}
	said := fmt.Sprintf("%s: %s", url, answer.Status)
	var health healthAnswer
	if json.Unmarshal(body, &health) == nil && health.Status != "" {
		said += " " + strings.Join(strings.Fields(health.Status), " ")
	}
	if answer.StatusCode != http.StatusOK {
		return "", errors.New(said)
	}
	return said, nil
}
