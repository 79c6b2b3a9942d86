// Package config defines the advisor's settings: their names, meanings and allowed values.
package config

import (
	"errors"
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

	settings *service.Settings // as given
}

const (
	rateMax  = 1e9
	queryDef = "sum(rate(ratelimiter_requests_total[1m]))"
)

// Register registers the settings. c receives their values.
func (c *Config) Register(s *service.Settings) {
	c.settings, c.Zone = s, time.UTC
	s.Add(service.SettingList{
		{Name: "CAPACITY_RPS", Default: "0", Value: service.Float(&c.CapacityRPS, 0, rateMax),
			Help: "expected capacity of the target in requests per second; 0: unknown"},
		{Name: "SLO_P95", Default: "0s", Value: service.Duration(&c.SLO, 0, time.Hour),
			Help: "highest acceptable p95 latency; 0: three times the p95 at low load"},
		{Name: "LIMIT_MIN_RPS", Default: "5", Value: service.Float(&c.LimitMin, 0.001, rateMax),
			Help: "lowest recommended limit, in requests per second"},
		{Name: "LIMIT_MAX_RPS", Default: "100000", Value: service.Float(&c.LimitMax, 0.001, rateMax),
			Help: "highest recommended limit, in requests per second"},
		{Name: "STATE_FILE", Value: service.String(&c.StateFile),
			Help: "file that keeps what was learned across restarts, with journal and lock next to it; empty: nothing is kept"},
		{Name: "STATE_INTERVAL", Default: "5m", Value: service.Duration(&c.StateEvery, time.Second, 24*time.Hour),
			Help: "interval at which STATE_FILE is replaced; later snapshots are in its journal within a second"},
		{Name: "HISTORY_URL", Value: service.Func(&c.HistoryURL, "an http or https URL", historyURL),
			Help: "Prometheus-compatible server to load history from at the start"},
		{Name: "HISTORY_QUERY", Default: queryDef, Value: service.String(&c.HistoryQuery),
			Help: "query for HISTORY_URL: one series in requests per second"},
		{Name: "TIMEZONE", Default: "UTC",
			Value: service.Func(&c.Zone, "a name of the IANA database such as Europe/Berlin", timeZone),
			Help:  "time zone of days and weeks"},
		{Name: "EVENTS_FILE", Value: service.String(&c.EventsFile),
			Help: "YAML file with announced events, a list of {name, start, end, ramp}; read again when it changes"},
	})
}

func historyURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("is not the URL of a server")
	}
	return u, nil
}

func timeZone(text string) (*time.Location, error) {
	zone, err := time.LoadLocation(text)
	if err != nil || text == "Local" { // which would differ from machine to machine
		return nil, errors.New("is not the name of a time zone")
	}
	return zone, nil
}

// Complete checks the settings together, and reads the events. The error joins a
// *service.SettingError for each fault.
func (c *Config) Complete() error {
	s := c.settings
	err := s.FaultIf(c.LimitMin > c.LimitMax, "LIMIT_MIN_RPS", "is more than LIMIT_MAX_RPS",
		"at most "+s.Text("LIMIT_MAX_RPS"))
	if c.EventsFile == "" {
		return err
	}
	events, fault := ReadEvents(c.EventsFile, c.Zone)
	if fault != nil {
		return errors.Join(err, s.Fault("EVENTS_FILE", "cannot be used: "+fault.Error(), ""))
	}
	c.Events = events
	return err
}
