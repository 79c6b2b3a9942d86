package remote

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"weir/proxy/store/lane"
)

const (
	// mastersMax bounds the masters of one sidecar.
	mastersMax = 16
	// missedSpan is for how long batches may miss their deadlines until the masters count as
	// away: a long timeout must not be waited for again and again.
	missedSpan = 500 * time.Millisecond
)

// Config says where the masters are and what to do when none answers. Zero fields mean the
// defaults.
type Config struct {
	// Config is the lane's, but for Name, Title and Misses.
	lane.Config

	// URLs are the decision ports of the masters, http or https, in the order in which they
	// are tried.
	URLs []string
	// Token is the masters' DECISION_TOKEN, or their ADMIN_TOKEN for edits of keys, too.
	Token string
	// CAFile is a PEM file of the authorities that signed the masters' certificates; empty:
	// the system's.
	CAFile string
}

func (cfg Config) withDefaults() Config {
	cfg.Name, cfg.Title, cfg.Lost, cfg.Back = "remote", "Master", "Master lost", "Master is back"
	cfg.Config = cfg.Config.WithDefaults()
	cfg.Misses = min(max(1, int(missedSpan/cfg.Timeout)), cfg.Misses)
	return cfg
}

// ParseURLs reads URLs, comma separated.
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

// Validate returns lane.Faults, or nil.
func (cfg Config) Validate() error {
	cfg = cfg.withDefaults()
	var f lane.Faults
	if _, err := ParseURLs(strings.Join(cfg.URLs, ",")); err != nil {
		f.Check(true, "URLs", "http://host:port, comma separated", "%v", err)
	}
	f.Check(strings.ContainsAny(cfg.Token, "\r\n"), "Token", "", "must be one line")
	rest, _ := errors.AsType[lane.Faults](cfg.Config.Validate())
	return append(f, rest...).Err()
}
