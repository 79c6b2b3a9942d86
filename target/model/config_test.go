package model

import (
	"math"
	"strings"
	"testing"
	"time"
	"weir/internal/data/strict"
)

func TestValidate(t *testing.T) {
	with := func(change func(c *Config)) Config {
		c := Default()
		change(&c)
		return c
	}
	for _, test := range []struct {
		name  string
		cfg   Config
		paths string // of the faults, in order; "" for none
	}{
		{"default", Default(), ""},
		{"zero", Config{}, "queueTimeout"},
		{"delay at the bound", with(func(c *Config) { c.Delay = DelayMax }), ""},
		{"delay beyond", with(func(c *Config) { c.Delay = DelayMax + 1 }), "delay"},
		{"delay negative", with(func(c *Config) { c.Delay = -1 }), "delay"},
		{"unknown distribution", with(func(c *Config) { c.Dist = 3 }), "delayDist"},
		{"workers at the bound", with(func(c *Config) { c.Workers = WorkersMax }), ""},
		{"workers beyond", with(func(c *Config) { c.Workers = WorkersMax + 1 }), "workers"},
		{"workers negative", with(func(c *Config) { c.Workers = -1 }), "workers"},
		{"no places", with(func(c *Config) { c.Queue = 0 }), ""},
		{"queue at the bound", with(func(c *Config) { c.Queue = QueueMax }), ""},
		{"queue beyond", with(func(c *Config) { c.Queue = QueueMax + 1 }), "queue"},
		{"queue negative", with(func(c *Config) { c.Queue = -1 }), "queue"},
		{"shortest patience", with(func(c *Config) { c.QueueTimeout = QueueTimeoutMin }), ""},
		{"shorter patience", with(func(c *Config) { c.QueueTimeout = QueueTimeoutMin - 1 }), "queueTimeout"},
		{"longer patience", with(func(c *Config) { c.QueueTimeout = QueueTimeoutMax + 1 }), "queueTimeout"},
		{"all fail", with(func(c *Config) { c.ErrorRate = 1 }), ""},
		{"more than all", with(func(c *Config) { c.ErrorRate = 1.01 }), "errorRate"},
		{"less than none", with(func(c *Config) { c.ErrorRate = -0.01 }), "errorRate"},
		{"not a number", with(func(c *Config) { c.ErrorRate = math.NaN() }), "errorRate"},
		{"several", Config{Delay: -1, Workers: -1, ErrorRate: 2}, "delay workers queueTimeout errorRate"},
	} {
		var paths []string
		err := test.cfg.Validate()
		if err != nil {
			for _, f := range err.(strict.Faults) {
				paths = append(paths, f.Path)
			}
		}
		if got := strings.Join(paths, " "); got != test.paths {
			t.Errorf("%s: faults at %q, want %q (%v)", test.name, got, test.paths, err)
		}
	}
}

func TestFaultsReadAsASentence(t *testing.T) {
	err := Config{Delay: 2 * time.Hour, QueueTimeout: time.Second, ErrorRate: 2}.Validate()
	const want = "delay: must be 0 to 3600 seconds; errorRate: must be 0 to 1"
	if err.Error() != want {
		t.Errorf("said %q, want %q", err, want)
	}
}

func TestDistWords(t *testing.T) {
	for d := Constant; d <= Lognormal; d++ {
		text, _ := d.MarshalText()
		var again Dist
		if err := again.UnmarshalText(text); err != nil || again != d {
			t.Errorf("%q parsed as %v, %v", text, again, err)
		}
	}
	const want = `must be one of constant, exponential, lognormal, is "Constant"`
	if err := new(Dist).UnmarshalText([]byte("Constant")); err == nil || err.Error() != want {
		t.Errorf("a wrongly cased word: %v, want %s", err, want)
	}
}

func TestPlain(t *testing.T) {
	for _, test := range []struct {
		name  string
		cfg   Config
		plain bool
	}{
		{"default", Default(), true},
		{"delay", Config{Delay: 1}, false},
		{"workers", Config{Workers: 1}, false},
		{"errors", Config{ErrorRate: 0.1}, false},
	} {
		if test.cfg.Plain() != test.plain {
			t.Errorf("%s: plain is %v, want %v", test.name, !test.plain, test.plain)
		}
	}
}
