package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// A Target is a target named in the settings.
type Target struct {
	URL    string // normal form: scheme, host and port
	Addr   string // host:port
	Host   string // value of the Host field: without the scheme's default port
	Name   string // host without port
	Secure bool   // https
}

// noTargets is the value that means no targets.
const noTargets = "none"

// ParseTargets reads base URLs, comma separated, or none.
func ParseTargets(text string) (list []Target, err error) {
	if text == noTargets {
		return nil, nil
	}
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(text, ",") {
		t, err := ParseTarget(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if seen[t.URL] {
			return nil, fmt.Errorf("%q is listed twice", t.URL)
		}
		seen[t.URL] = true
		list = append(list, t)
	}
	return list, nil
}

// ParseTarget reads one base URL.
func ParseTarget(text string) (Target, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return Target{}, fmt.Errorf("%q is not a URL", text)
	case u.Scheme != "http" && u.Scheme != "https":
		return Target{}, fmt.Errorf("%q does not begin with http:// or https://", text)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return Target{}, fmt.Errorf("%q has more than host and port", text)
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	port := cmp.Or(u.Port(), usual)
	if u.Hostname() == "" || !validPort(port) {
		return Target{}, fmt.Errorf("%q has no host, or a port that is not from 1 to 65535", text)
	}
	addr := net.JoinHostPort(u.Hostname(), port)
	t := Target{URL: u.Scheme + "://" + addr, Addr: addr, Host: addr, Name: u.Hostname(), Secure: u.Scheme == "https"}
	if port == usual {
		t.Host = strings.TrimSuffix(addr, ":"+port)
	}
	return t, nil
}
