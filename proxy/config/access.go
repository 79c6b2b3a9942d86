package config

import (
	"weir/internal/program/service"
	"weir/proxy/http/session"
	"weir/proxy/wire/accesslog"
)

// AccessLog has the settings of the access log and of request ids.
type AccessLog struct {
	File    string // ACCESS_LOG; empty: none
	Format  accesslog.Format
	Refused bool
	Sample  float64
}

func (a *AccessLog) register(s *service.Settings, d *session.Settings) {
	s.Add(service.SettingList{
		{Name: "ACCESS_LOG", Value: service.String(&a.File),
			Help: "where to write a line for each request except those to own endpoints: stdout, or a file, which is opened " +
				"again at SIGHUP; lines contain clients' addresses and query strings; empty: no access log"},
		{Name: "ACCESS_LOG_FORMAT", Default: "json", Value: service.StringerEnum(&a.Format, accesslog.JSON,
			accesslog.Combined),
			Help: "format of lines: JSON, or that of nginx and Apache"},
		{Name: "ACCESS_LOG_WHICH", Default: "all", Value: service.Enum(&a.Refused, "all, refused", false, true),
			Help: "which requests are logged: all, or only those that were refused or failed"},
		{Name: "ACCESS_LOG_SAMPLE", Default: "1", Value: service.Float(&a.Sample, 0, 1),
			Help: "share of successful requests that is logged; requests that were refused or failed are always logged"},
		{Name: "REQUEST_ID", Default: "off", Value: service.Enum(&d.RequestID, "on, off", true, false),
			Help: "on: each request has an id, which is taken from X-Request-Id of trusted proxies or new; it is sent to " +
				"target and client in X-Request-Id, and shown in the access log and in decisions"},
	})
}
