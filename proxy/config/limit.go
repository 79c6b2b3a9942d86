package config

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/data/number"
	"weir/internal/program/service"
	"weir/proxy/limit"
)

// Defaults of the global limit's numbers.
const (
	limitDefault  = 100
	windowDefault = 1
)

// registerLimit adds the settings of the global limit.
func (c *Config) registerLimit(s *service.Settings) {
	s.Choice("RATE_LIMIT_ALGORITHM", "fixed", "algorithm of the global limit",
		service.Among(&c.Limit.Algorithm, limit.Algorithms()...))
	s.Int(&c.limit, "RATE_LIMIT_LIMIT", limitDefault, 1, 1<<53, "requests per window (fixed, sliding, sliding_log, gcra)")
	s.Float(&c.Limit.Window, "RATE_LIMIT_WINDOW", windowDefault, 0.000001, 100*365*24*3600,
		"window in seconds (fixed, sliding, sliding_log, gcra)")
	s.Int(&c.capacity, "RATE_LIMIT_CAPACITY", limitDefault, 1, 1<<53,
		"capacity of the bucket (token) or of the queue (leaky)")
	s.Float(&c.Limit.FillRate, "RATE_LIMIT_FILL_RATE", limitDefault, 0.000001, 1e9,
		"refill of tokens (token) or requests leaving the queue (leaky), per second")
	c.limitGiven = func() bool {
		return s.Given("RATE_LIMIT_ALGORITHM", "RATE_LIMIT_LIMIT", "RATE_LIMIT_WINDOW", "RATE_LIMIT_CAPACITY",
			"RATE_LIMIT_FILL_RATE")
	}
}

// LimitGiven reports whether the settings say something about the global limit. An advisor needs one to start
// with, so that ADAPTIVE_MODE does, too.
func (c *Config) LimitGiven() bool { return c.limitGiven() || c.Adaptive.Mode != "false" }

// A limitSetting is one of the settings of the global limit's numbers.
type limitSetting struct {
	name  string
	field string // field of the configuration
	value string
	given bool // differs from the default
}

func (c *Config) limitSettings() []limitSetting {
	of := func(name, field string, value, otherwise float64) limitSetting {
		return limitSetting{name, field, number.Decimal(value), value != otherwise}
	}
	return []limitSetting{
		of("RATE_LIMIT_LIMIT", "limit", float64(c.limit), limitDefault),
		of("RATE_LIMIT_WINDOW", "window", c.Limit.Window, windowDefault),
		of("RATE_LIMIT_CAPACITY", "capacity", float64(c.capacity), limitDefault),
		of("RATE_LIMIT_FILL_RATE", "fillRate", c.Limit.FillRate, limitDefault),
	}
}

// stray checks numbers that are given but not used by the algorithm. They apply after a
// later switch, and Notes says so. But if none of the numbers that the algorithm uses is
// given, the operator has probably taken them for the limit, and that is an error.
func (c *Config) stray(a limit.Algorithm) error {
	var used, stray []limitSetting
	var names []string // fields that the algorithm uses
	for _, s := range c.limitSettings() {
		switch uses := slices.Contains(a.Fields(), s.field); {
		case uses:
			names = append(names, s.name)
			if s.given {
				used = append(used, s)
			}
		case s.given:
			stray = append(stray, s)
		}
	}
	if len(stray) > 0 && len(used) == 0 && a != limit.Off {
		return &service.SettingError{Name: stray[0].name, Value: stray[0].value,
			Problem: fmt.Sprintf("has no effect with RATE_LIMIT_ALGORITHM=%v", a), Allowed: strings.Join(names, ", ")}
	}
	for _, s := range stray {
		c.Notes = append(c.Notes,
			fmt.Sprintf("%s=%s has no effect with RATE_LIMIT_ALGORITHM=%v until the algorithm is switched", s.name, s.value, a))
	}
	return nil
}
