// Package config has the advisor's settings: their names, meanings and allowed values.
package config

import (
	"errors"
	"fmt"
	"net/url"
	"time"
	_ "time/tzdata" // an image without a file system has all time zones

	"weir/advisor/forecast"
	"weir/internal/program/service"
)

// Config has the settings as given.
type Config struct {
	CapacityRPS        float64       // expected of the target, in requests per second; 0: unknown
	SLO                time.Duration // highest acceptable p95; 0: three times the p95 at low load
	LimitMin, LimitMax float64       // bounds of recommended limits, in requests per second
	// StateFile keeps what was learned; empty: nothing is kept. It is replaced as a whole
	// every StateEvery, and later snapshots go to its journal.
	StateFile    string
	StateEvery   time.Duration
	HistoryURL   *url.URL // of a server to load history from at the start, or nil
	HistoryQuery string
	Zone         *time.Location   // of days and weeks
	EventsFile   string           // lists announced events
	Events       []forecast.Event // its content at the start
}

const (
	rateMax  = 1e9
	queryDef = "sum(rate(ratelimiter_requests_total[1m]))"
)

// Register registers the settings. c receives their values.
func (c *Config) Register(s *service.Settings) {
	c.Zone = time.UTC
	s.Float(&c.CapacityRPS, "CAPACITY_RPS", 0, 0, rateMax,
		"expected capacity of the target in requests per second; 0: unknown")
	s.Duration(&c.SLO, "SLO_P95", 0, 0, time.Hour, "highest acceptable p95 latency; 0: three times the p95 at low load")
	s.Float(&c.LimitMin, "LIMIT_MIN_RPS", 5, 0.001, rateMax, "lowest recommended limit, in requests per second")
	s.Float(&c.LimitMax, "LIMIT_MAX_RPS", 100_000, 0.001, rateMax, "highest recommended limit, in requests per second")
	s.String(&c.StateFile, "STATE_FILE", "",
		"file that keeps what was learned across restarts, with journal and lock next to it; empty: nothing is kept")
	s.Duration(&c.StateEvery, "STATE_INTERVAL", 5*time.Minute, time.Second, 24*time.Hour,
		"interval at which STATE_FILE is replaced; later snapshots are in its journal within a second")
	s.Func("HISTORY_URL", "", "Prometheus-compatible server to load history from at the start", "an http or https URL",
		c.setURL)
	s.String(&c.HistoryQuery, "HISTORY_QUERY", queryDef, "query for HISTORY_URL: one series in requests per second")
	s.Func("TIMEZONE", "UTC", "time zone of days and weeks", "a name of the IANA database such as Europe/Berlin",
		c.setZone)
	s.String(&c.EventsFile, "EVENTS_FILE", "",
		"YAML file with announced events, a list of {name, start, end, ramp}; read again when it changes")
}

func (c *Config) setURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("is not the URL of a server")
	}
	c.HistoryURL = u
	return nil
}

func (c *Config) setZone(text string) error {
	zone, err := time.LoadLocation(text)
	if err != nil || text == "Local" { // which would differ from machine to machine
		return errors.New("is not the name of a time zone")
	}
	c.Zone = zone
	return nil
}

// Complete checks the settings together, and reads the events. The error joins a
// *service.SettingError for each fault.
func (c *Config) Complete() (err error) {
	if c.LimitMin > c.LimitMax {
		err = &service.SettingError{Name: "LIMIT_MIN_RPS", Value: fmt.Sprint(c.LimitMin),
			Problem: "is more than LIMIT_MAX_RPS",
			Allowed: fmt.Sprintf("at most %v", c.LimitMax)}
	}
	if c.EventsFile == "" {
		return err
	}
	events, fault := ReadEvents(c.EventsFile, c.Zone)
	if fault != nil {
		return errors.Join(err, &service.SettingError{Name: "EVENTS_FILE", Value: c.EventsFile,
			Problem: "cannot be used: " + fault.Error()})
	}
	c.Events = events
	return err
}
