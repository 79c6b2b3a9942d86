package config

import (
	"net"
	"strconv"
	"time"

	"weir/internal/program/service"
	"weir/proxy/ask/port"
)

// Statsd has the settings of statistics in the form of statsd, with the names that envoyproxy/ratelimit uses.
type Statsd struct {
	use    bool
	host   string
	port   int
	config port.Statsd
}

func (d *Statsd) register(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "USE_STATSD", Default: "false", Value: service.Bool(&d.use), NoEffect: s.NoEffectWhen("DECISION_PORT", "0"),
			Help: "true: statistics of Envoy's rate limit service are sent to a statsd server, by UDP"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("USE_STATSD", "false"), service.SettingList{
		{Name: "STATSD_HOST", Default: "localhost", Value: service.String(&d.host), Help: "host of the statsd server"},
		{Name: "STATSD_PORT", Default: "8125", Value: service.Int(&d.port, 1, 65535), Help: "its port"},
		{Name: "EXTRA_TAGS", Value: service.Func(&d.config.Tags, "name:value, comma separated", pairs(":")),
			Help: "tags of all statistics sent to statsd"},
		{Name: "STATS_FLUSH_INTERVAL", Default: "10s",
			Value: service.Duration(&d.config.Interval, time.Millisecond, time.Hour), Help: "interval of sending them"},
	})
}

// Config returns where statistics are sent.
func (d *Statsd) Config() port.Statsd {
	c := d.config
	if d.use {
		c.Addr = net.JoinHostPort(d.host, strconv.Itoa(d.port))
	}
	return c
}
