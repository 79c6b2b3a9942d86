package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strings"

	"weir/internal/data/mask"
)

// A Target is a target named in the settings.
type Target struct {
	URL    string // normal form: scheme, host and port
	Addr   string // host:port
	Host   string // value of the Host field: without the scheme's default port
	Name   string // host without port
	Secure bool   // https, h2
	HTTP2  bool   // h2c, h2
}

// noTargets is the value that means no targets.
const noTargets = "none"

// ParseTargets reads base URLs, comma separated, or none.
func ParseTargets(text string) (list []Target, err error) {
	if text != noTargets {
		list, _, err = TargetsOf(elements(text))
	}
	return list, err
}

// TargetsOf reads base URLs. An error is about the URL with the returned index.
func TargetsOf(urls []string) (list []Target, index int, err error) {
	seen := make(map[string]bool)
	for i, text := range urls {
		t, err := parseTarget(text)
		if err == nil && seen[t.URL] {
			err = fmt.Errorf("%q is listed twice", t.URL)
		}
		if err != nil {
			return nil, i, err
		}
		seen[t.URL] = true
		list = append(list, t)
	}
	return list, 0, nil
}

// usualPorts are the ports of the schemes of targets. h2c is HTTP/2 without TLS, h2 with TLS.
var usualPorts = map[string]string{"http": "80", "https": "443", "h2c": "80", "h2": "443"}

func parseTarget(text string) (Target, error) {
	u, err := url.Parse(text)
	shown := mask.Value(text)
	switch {
	case err != nil || u.Host == "":
		return Target{}, fmt.Errorf("%q is not a URL", shown)
	case usualPorts[u.Scheme] == "":
		return Target{}, fmt.Errorf("%q does not begin with http://, https://, h2c:// or h2://", shown)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return Target{}, fmt.Errorf("%q has more than host and port", shown)
	}
	usual := usualPorts[u.Scheme]
	port := cmp.Or(u.Port(), usual)
	if u.Hostname() == "" || !validPort(port) {
		return Target{}, fmt.Errorf("%q has no host, or a port that is not from 1 to 65535", shown)
	}
	addr := net.JoinHostPort(u.Hostname(), port)
	t := Target{URL: u.Scheme + "://" + addr, Addr: addr, Host: addr, Name: u.Hostname(),
		Secure: usual == usualPorts["https"], HTTP2: u.Scheme == "h2c" || u.Scheme == "h2"}
	if port == usual {
		t.Host = strings.TrimSuffix(addr, ":"+port)
	}
	return t, nil
}

// UsesHTTP2 reports whether a target is used by HTTP/2, as its URL or TARGET_PROTOCOL says.
func (c *Config) UsesHTTP2(t *Target) bool {
	return t.HTTP2 || c.http2.target == "h2c" && !t.Secure || c.http2.target == "h2" && t.Secure
}
