package remote

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"weir/internal/data/strict"
	"weir/proxy/store/lane"
)

const (
	// mastersMax bounds the masters of one sidecar.
	mastersMax = 16
	// missedSpan bounds the time for which batches in a row may miss their deadlines before the
	// masters count as unavailable, so that a long timeout is not waited for repeatedly.
	missedSpan = 500 * time.Millisecond
)

// A Config configures a Store. Zero fields mean the defaults.
type Config struct {
	// Config is that of the lanes, without Name, Title and Misses.
	lane.Config

	// URLs are the decision ports of the masters, http or https, in the order in which they
	// are tried.
	URLs []string
	// Token is the masters' DECISION_TOKEN, or to edit keys their ADMIN_TOKEN.
	Token string
	// CAFile is a PEM file of the authorities that signed the masters' certificates. Empty means
	// the system's.
	CAFile string
}

func (cfg Config) withDefaults() Config {
	cfg.Name, cfg.Title, cfg.LostMessage, cfg.ReconnectedMessage = "remote", "Master", "Master lost", "Master is back"
	cfg.Config = cfg.Config.WithDefaults()
	cfg.Misses = min(max(1, int(missedSpan/cfg.Timeout)), cfg.Misses)
	return cfg
}

// ParseURLs parses a comma-separated list of URLs.
func ParseURLs(text string) (urls []string, err error) {
	for part := range strings.SplitSeq(text, ",") {
		u := strings.TrimSuffix(strings.TrimSpace(part), "/")
		if err := checkURL(u); err != nil {
			return nil, err
		}
		urls = append(urls, u)
	}
	if len(urls) > mastersMax {
		return nil, fmt.Errorf("must be at most %d masters, is %d", mastersMax, len(urls))
	}
	return urls, nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return fmt.Errorf("%q is not a URL", text)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q does not begin with http:// or https://", text)
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return errors.New("a URL has more than host and port")
	}
	return nil
}

// Validate returns all faults as strict.Faults, or nil.
func (cfg Config) Validate() error {
	cfg = cfg.withDefaults()
	var f strict.Reader
	_, err := ParseURLs(strings.Join(cfg.URLs, ","))
	f.Check(err != nil, "URLs", "%v; allowed: http://host:port, comma separated", err)
	f.Check(strings.ContainsAny(cfg.Token, "\r\n"), "Token", "must be one line")
	cfg.Config.Check(&f)
	return f.Err()
}
