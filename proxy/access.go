package main

import (
	"weir/internal/program/service"
	"weir/proxy/config"
	"weir/proxy/wire"
	"weir/proxy/wire/accesslog"
)

// openAccess opens the access log, if one is configured. On SIGHUP a log file is opened
// again.
func openAccess(e *service.Env, c *config.Config) (a wire.AccessLog, err error) {
	a = wire.AccessLog{Format: c.Access.Format, Refused: c.Access.Refused, Sample: c.Access.Sample}
	name := c.Access.File
	if name == "" {
		return a, nil
	}
	if a.Writer, err = accesslog.Open(name, c.Loop().Loops, e.Logger("AccessLog")); err != nil {
		return a, accessFault(name, err)
	}
	if name != accesslog.Stdout {
		e.OnReload(a.Writer.Reopen, "access log")
	}
	return a, nil
}

// checkAccess reports why the access log cannot be opened.
func checkAccess(c *config.Config) error {
	if c.Access.File == "" {
		return nil
	}
	if err := accesslog.Check(c.Access.File); err != nil {
		return accessFault(c.Access.File, err)
	}
	return nil
}

// accessFault returns the error that the access log cannot be written.
func accessFault(name string, err error) error {
	return &service.SettingError{Name: "ACCESS_LOG", Value: name, Problem: "cannot be written: " + err.Error(),
		Allowed: "stdout, or a file in a folder that exists"}
}
