package main

import (
	"errors"
	"log/slog"
	"time"

	"weir/internal/certs"
	"weir/internal/service"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/store/simredis"
)

// check says what is wrong with the settings together and with the files that they
// name.
func check(c *config.Config) error {
	err := c.Complete()
	_, targets := newTargets(c)
	_, pair := serverPair(c)
	templates, folder := admin.NewTemplates(c.Refusal.Templates)
	return errors.Join(err, targets, pair, checkRedisFiles(c), checkRemoteFiles(c), folder, checkAccess(c), checkRules(c, templates))
}

// checkRedisFiles reads the authorities that Redis is trusted by.
func checkRedisFiles(c *config.Config) error {
	if !c.UsesRedis() {
		return nil
	}
	cfg, err := c.Redis()
	if err != nil || cfg.TLSCAFile == "" {
		return nil // Complete has said what is wrong
	}
	if _, err := certs.Pool(cfg.TLSCAFile); err != nil {
		return fileFault("REDIS_TLS_CA_FILE", cfg.TLSCAFile, err)
	}
	return nil
}

// checkRemoteFiles reads the authorities that masters are trusted by.
func checkRemoteFiles(c *config.Config) error {
	cfg, err := c.Remote()
	if err != nil || !c.UsesRemote() || cfg.CAFile == "" {
		return nil // Complete has said what is wrong
	}
	if _, err := certs.Pool(cfg.CAFile); err != nil {
		return fileFault("REMOTE_CA_FILE", cfg.CAFile, err)
	}
	return nil
}

// checkRules reads the files of rules and clients, each for itself when they do not
// go together. templates are nil when they cannot be used.
func checkRules(c *config.Config, templates *admin.Templates) error {
	files, options := ruleSources(c, templates)
	read := func(files admin.RuleFiles) error {
		_, err := admin.NewRules(time.Now(), files, options, new(simredis.Documents), func(string) *slog.Logger { return slog.New(slog.DiscardHandler) })
		return err
	}
	err := read(files)
	if about, ok := errors.AsType[*service.SettingError](err); ok && about.Name == "RULES_FILE" {
		err = errors.Join(err, read(admin.RuleFiles{Clients: files.Clients}))
	}
	return err
}

// fileFault says that the file of a setting cannot be used.
func fileFault(setting, file string, err error) error {
	return &service.SettingError{Name: setting, Value: file, Problem: "cannot be used: " + err.Error(), Allowed: "a PEM file of certificates"}
}
