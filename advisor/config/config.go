// Package config is the advisor's settings: what there is, what it means, and what
// is allowed.
package config

import (
	"errors"
	"fmt"
	"net/url"
	"time"
	_ "time/tzdata" // an image without a file system knows all time zones

	"weir/advisor/forecast"
	"weir/internal/service"
)

// Config is the settings as given.
type Config struct {
	// CapacityRPS is what the target is thought to take, in requests per second;
	// 0 is unknown.
	CapacityRPS float64
	// SLO is the p95 that is still good; 0: three times that at low load.
	SLO time.Duration
	// LimitMin and LimitMax bound what is recommended, in requests per second.
	LimitMin, LimitMax float64
	// StateFile keeps what was learned; empty: nothing is kept. It is written
	// whole every StateEvery, and what comes between goes to its journal.
	StateFile  string
	StateEvery time.Duration
	// HistoryURL is a server to load history from at the start; nil is none.
	HistoryURL   *url.URL
	HistoryQuery string
	// Zone is whose clock days and weeks follow.
	Zone *time.Location
	// EventsFile lists announced events; Events is what it said at the start.
	EventsFile string
	Events     []forecast.Event
}

const (
	rateMax  = 1e9
	queryDef = "sum(rate(ratelimiter_requests_total[1m]))"
)

// Register registers the settings; c receives them.
func (c *Config) Register(s *service.Settings) {
	c.Zone = time.UTC
	s.Float(&c.CapacityRPS, "CAPACITY_RPS", 0, 0, rateMax, "what the target is thought to take, in requests per second; 0 is unknown")
	s.Duration(&c.SLO, "SLO_P95", 0, 0, time.Hour, "p95 of the latency that is still good; 0 is three times that at low load")
	s.Float(&c.LimitMin, "LIMIT_MIN_RPS", 5, 0.001, rateMax, "lowest limit that is recommended, in requests per second")
	s.Float(&c.LimitMax, "LIMIT_MAX_RPS", 100_000, 0.001, rateMax, "highest limit that is recommended, in requests per second")
	s.String(&c.StateFile, "STATE_FILE", "", "file that keeps what was learned across restarts; its journal and lock stand beside it; empty: nothing is kept")
	s.Duration(&c.StateEvery, "STATE_INTERVAL", 5*time.Minute, time.Second, 24*time.Hour,
		"how often STATE_FILE is written whole; what comes between is in its journal within a second")
	s.Func("HISTORY_URL", "", "Prometheus-compatible server to load history from at the start", "an http or https URL", c.setURL)
	s.String(&c.HistoryQuery, "HISTORY_QUERY", queryDef, "what to ask it: one series, requests per second")
	s.Func("TIMEZONE", "UTC", "whose clock days and weeks follow", "a name of the IANA database such as Europe/Berlin", c.setZone)
	s.String(&c.EventsFile, "EVENTS_FILE", "", "YAML list of {name, start, end, ramp}; read again when it changes")
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
	if text == "Local" { // differs from machine to machine
		return errors.New("is not the name of a time zone")
	}
	zone, err := time.LoadLocation(text)
	if err != nil {
		return errors.New("is not the name of a time zone")
	}
	c.Zone = zone
	return nil
}

// Complete checks what only the settings together show, and reads the events. The
// error joins a *service.SettingError for each fault.
func (c *Config) Complete() (err error) {
	if c.LimitMin > c.LimitMax {
		err = &service.SettingError{Name: "LIMIT_MIN_RPS", Value: fmt.Sprint(c.LimitMin), Problem: "is more than LIMIT_MAX_RPS",
			Allowed: fmt.Sprintf("at most %v", c.LimitMax)}
	}
	if c.EventsFile == "" {
		return err
	}
	events, fault := ReadEvents(c.EventsFile, c.Zone)
	if fault != nil {
		return errors.Join(err, &service.SettingError{Name: "EVENTS_FILE", Value: c.EventsFile, Problem: "cannot be used: " + fault.Error()})
	}
	c.Events = events
	return err
}
