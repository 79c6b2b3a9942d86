package config

import (
	"weir/internal/service"
	"weir/proxy/accesslog"
)

// Access is the settings of the access log, and of request ids.
type Access struct {
	File    string // ACCESS_LOG; empty: none
	Format  accesslog.Format
	Refused bool
	Sample  float64

	requestID string
}

// register adds the settings to s.
func (a *Access) register(s *service.Settings) {
	s.String(&a.File, "ACCESS_LOG", "", "a line for each request but those to own endpoints: stdout, or a file, which is opened again at SIGHUP; lines have clients' addresses and query strings; empty: none")
	s.Word("ACCESS_LOG_FORMAT", "json", []string{"json", "combined"}, "how lines are written: JSON, or as nginx and Apache do", func(word string) error {
		a.Format = accesslog.JSON
		if word == "combined" {
			a.Format = accesslog.Combined
		}
		return nil
	})
	s.Word("ACCESS_LOG_WHICH", "all", []string{"all", "refused"}, "which requests: all, or only those that were refused or failed",
		func(word string) error { a.Refused = word == "refused"; return nil })
	s.Float(&a.Sample, "ACCESS_LOG_SAMPLE", 1, 0, 1, "the share of the requests that were answered well of which there are lines; of those that were refused or failed there always are")
	s.Enum(&a.requestID, "REQUEST_ID", "off", []string{"on", "off"},
		"on: each request has an id, that of X-Request-Id of trusted proxies or a new one, in X-Request-Id to target and client, in the access log and in decisions")
}
