package config

import (
	"weir/internal/program/service"
	"weir/proxy/http/session"
	"weir/proxy/wire/accesslog"
)

// Access has the settings of the access log and of request ids.
type Access struct {
	File    string // ACCESS_LOG; empty: none
	Format  accesslog.Format
	Refused bool
	Sample  float64
}

func (a *Access) register(s *service.Settings, d *session.Settings) {
	s.String(&a.File, "ACCESS_LOG", "",
		"where to write a line for each request except those to own endpoints: stdout, or a file, which is opened again "+
			"at SIGHUP; lines contain clients' addresses and query strings; empty: no access log")
	s.Choice("ACCESS_LOG_FORMAT", "json", "format of lines: JSON, or that of nginx and Apache",
		service.Among(&a.Format, accesslog.JSON, accesslog.Combined))
	s.Word("ACCESS_LOG_WHICH", "all", []string{"all", "refused"},
		"which requests are logged: all, or only those that were refused or failed", is(&a.Refused, "refused"))
	s.Float(&a.Sample, "ACCESS_LOG_SAMPLE", 1, 0, 1,
		"share of successful requests that is logged; requests that were refused or failed are always logged")
	s.Word("REQUEST_ID", "off", []string{"on", "off"},
		"on: each request has an id, which is taken from X-Request-Id of trusted proxies or new; it is sent to target and "+
			"client in X-Request-Id, and shown in the access log and in decisions", is(&d.RequestID, "on"))
}
