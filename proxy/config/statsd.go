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

func (st *Statsd) register(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "USE_STATSD", Default: "false", Value: service.Bool(&st.use), NoEffect: s.NoEffectWhen("DECISION_PORT", "0"),
			Help: "true: statistics of Envoy's rate limit service are sent to a statsd server, by UDP"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("USE_STATSD", "false"), service.SettingList{
		{Name: "STATSD_HOST", Default: "localhost", Value: service.String(&st.host), Help: "host of the statsd server"},
		{Name: "STATSD_PORT", Default: "8125", Value: service.Int(&st.port, 1, 65535), Help: "its port"},
		{Name: "EXTRA_TAGS", Value: service.Func(&st.config.Tags, "name:value, comma separated", pairs(":")),
			Help: "tags of all statistics sent to statsd"},
		{Name: "STATS_FLUSH_INTERVAL", Default: "10s",
			Value: service.Duration(&st.config.Interval, time.Millisecond, time.Hour), Help: "interval of sending them"},
	})
}

// Config returns where statistics are sent.
func (st *Statsd) Config() port.Statsd {
	c := st.config
	if st.use {
		c.Addr = net.JoinHostPort(st.host, strconv.Itoa(st.port))
	}
	return c
}
