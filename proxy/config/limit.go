package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/program/service"
	"weir/proxy/limit"
)

// registerLimit adds the settings of the global limit.
func (c *Config) registerLimit(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "RATE_LIMIT_ALGORITHM", Default: "fixed", Value: service.StringerEnum(&c.Limit.Algorithm,
			limit.Algorithms()...),
			Help: "algorithm of the global limit"},
		{Name: "RATE_LIMIT_LIMIT", Default: "100", Value: service.Int(&c.Limit.Limit, 1, 1<<53),
			Help: "requests per window (fixed, sliding, sliding_log, gcra)"},
		{Name: "RATE_LIMIT_WINDOW", Default: "1",
			Value: service.Float(&c.Limit.Window, 0.000001, 100*365*24*3600),
			Help:  "window in seconds (fixed, sliding, sliding_log, gcra)"},
		{Name: "RATE_LIMIT_CAPACITY", Default: "100", Value: service.Int(&c.Limit.Capacity, 1, 1<<53),
			Help: "capacity of the bucket (token) or of the queue (leaky)"},
		{Name: "RATE_LIMIT_FILL_RATE", Default: "100", Value: service.Float(&c.Limit.FillRate, 0.000001, 1e9),
			Help: "refill of tokens (token) or requests leaving the queue (leaky), per second"},
	})
}

// LimitGiven reports whether the settings say something about the global limit. An advisor needs one to
// start with, so that ADAPTIVE_MODE does, too.
func (c *Config) LimitGiven() bool {
	return c.Adaptive.Mode != "false" || c.settings.Given("RATE_LIMIT_ALGORITHM", "RATE_LIMIT_LIMIT",
		"RATE_LIMIT_WINDOW", "RATE_LIMIT_CAPACITY", "RATE_LIMIT_FILL_RATE")
}

// limitFields maps the fields of a limit's configuration to settings.
var limitFields = map[string]string{"limit": "RATE_LIMIT_LIMIT", "window": "RATE_LIMIT_WINDOW",
	"capacity": "RATE_LIMIT_CAPACITY", "fillRate": "RATE_LIMIT_FILL_RATE"}

// completeLimit checks the global limit. Numbers that are given but not used by the algorithm apply after
// a later switch, and Notes says so. But if none of the numbers that the algorithm uses is given, the
// operator has probably taken them for the limit, and that is an error.
func (c *Config) completeLimit() error {
	s, a := c.settings, c.Limit.Algorithm
	var used, stray []string
	given := false
	for _, field := range []string{"limit", "window", "capacity", "fillRate"} {
		name := limitFields[field]
		if slices.Contains(a.Fields(), field) {
			used, given = append(used, name), given || s.Changed(name)
		} else if s.Changed(name) {
			stray = append(stray, name)
		}
	}
	faults := faultsOf(s, c.Limit.Validate(), limitFields)
	if len(stray) > 0 && !given && a != limit.Off {
		problem := fmt.Sprintf("has no effect with RATE_LIMIT_ALGORITHM=%v", a)
		return errors.Join(s.Fault(stray[0], problem, strings.Join(used, ", ")), faults)
	}
	for _, name := range stray {
		c.Notes = append(c.Notes, fmt.Sprintf("%s=%s has no effect with RATE_LIMIT_ALGORITHM=%v until the algorithm "+
			"is switched", name, s.Text(name), a))
	}
	return faults
}
