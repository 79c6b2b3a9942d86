package main

import (
	"context"
	"strings"
	"time"

	"weir/internal/program/certs"
	"weir/internal/program/service"
	"weir/internal/timing/every"
	"weir/proxy/config"
)

// pairFiles are settings that name a certificate and its key.
type pairFiles struct {
	prefix    string // as in TLS_CERT and TLS_KEY
	cert, key string
	keyName   string // by which the user knows the setting of the key
	expiry    string // metric with the time of expiry
}

// dataPair returns the settings of the certificate of the data port.
func dataPair(c *config.Config) pairFiles {
	return pairFiles{"TLS", c.Server.CertFile, c.Server.KeyFile, "TLS_KEY",
		"ratelimiter_certificate_expiry_timestamp_seconds"}
}

// decisionPair returns the settings of the certificate of a decision port: DECISION or GRPC.
func decisionPair(c *config.Config, prefix string, l *config.Listener) pairFiles {
	return pairFiles{prefix + "_TLS", l.CertFile, l.KeyFile, c.Named(prefix + "_TLS_KEY"),
		"ratelimiter_" + strings.ToLower(prefix) + "_certificate_expiry_timestamp_seconds"}
}

// load reads the certificate, if there is one.
func (f pairFiles) load() (*certs.KeyPair, error) {
	if f.cert == "" || f.key == "" {
		return nil, nil
	}
	pair, err := certs.Load(f.cert, f.key)
	if err != nil {
		return nil, &service.SettingError{Name: f.prefix + "_CERT", Value: f.cert,
			Problem: "cannot be used: " + err.Error(), Allowed: "a PEM certificate and, in " + f.keyName + ", its key"}
	}
	return pair, nil
}

// keepPair reads a certificate, if one is configured, and reads it again when its files
// change, until ctx ends.
func keepPair(ctx context.Context, e *service.Env, f pairFiles) (*certs.KeyPair, error) {
	pair, err := f.load()
	if pair == nil {
		return nil, err
	}
	e.OnReload(func() error { return checkPair(e, pair) }, "certificates")
	e.Metrics.Gauge(f.expiry, "when the certificate of "+f.prefix+"_CERT expires, or the first of its chain",
		func() float64 { return float64(pair.Expires().Unix()) })
	go followPair(ctx, e, pair, warnInvalid(e, pair, ""))
	return pair, nil
}

// warnInvalid logs a warning about a certificate that clients refuse, unless it was the
// last one logged. It returns the last one logged.
func warnInvalid(e *service.Env, pair *certs.KeyPair, logged string) string {
	err := pair.Invalid(time.Now())
	if err == nil {
		return ""
	}
	if err.Error() != logged {
		e.Logger("TLS").Warn("Clients refuse the certificate", "reason", err)
	}
	return err.Error()
}

// followPair reads the certificate again when its files change, until ctx ends. logged is
// the warning that was last logged.
func followPair(ctx context.Context, e *service.Env, pair *certs.KeyPair, logged string) {
	every.Interval(ctx.Done(), time.Second, func(time.Time) {
		_ = checkPair(e, pair) // already logged
		logged = warnInvalid(e, pair, logged)
	})
}

// checkPair reads the certificate again if its files have changed, and logs the outcome.
// The error says why the files are not in use.
func checkPair(e *service.Env, pair *certs.KeyPair) error {
	switch changed, err := pair.Check(); {
	case err != nil:
		e.Logger("TLS").Warn("The certificate on disk is not usable; the previous one stays in use", "error", err)
	case changed:
		e.Logger("TLS").Info("Loaded the new certificate", "expires", pair.Expires())
	}
	return pair.Fault()
}
