package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/internal/program/certs"
	"weir/internal/program/service"
	"weir/proxy/ask/port"
	"weir/proxy/config"
	"weir/proxy/control/admin"
	"weir/proxy/store/simredis"
)

// printed returns what is printed instead of running: the schema for PostgreSQL, or that the files of
// CHECK_RATELIMIT are right. Otherwise check says what is wrong with them.
func printed(c *config.Config) string {
	path := c.RateLimit.Check
	if text := c.PostgresSchema(); text != "" || path == "" {
		return text
	}
	counts, err := port.CheckFiles(path, c.RateLimit.Merge)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s: all right: %s\n", path, counts)
}

// check reports what is wrong with the settings taken together and with the files that
// they name.
func check(c *config.Config) error {
	if path := c.RateLimit.Check; path != "" {
		_, err := port.CheckFiles(path, c.RateLimit.Merge)
		return port.FilesError("CHECK_RATELIMIT", path, err)
	}
	err := c.Complete()
	_, targets := newTargets(c)
	_, pair := dataPair(c).load()
	_, decisions := decisionPair(c, "DECISION", &c.Decision.Listener).load()
	_, grpc := decisionPair(c, "GRPC", &c.Decision.GRPC).load()
	_, limits := port.NewLimits(c.LimitFiles(), slog.New(slog.DiscardHandler))
	cert, key := c.RedisPair()
	_, redis := pairFiles{prefix: "REDIS_TLS_CLIENT", cert: cert, key: key, keyName: "REDIS_TLS_CLIENT_KEY"}.load()
	_, server := c.XDS.Client()
	templates, folder := admin.NewTemplates(c.Templates)
	return errors.Join(err, targets, pair, decisions, grpc, redis, server, checkAuthorities(c), folder, checkAccess(c),
		checkRules(c, templates), limits)
}

// checkAuthorities reads the CA files that are in use: those that authenticate Redis,
// masters and the clients of the decision port.
func checkAuthorities(c *config.Config) error {
	var all []error
	read := func(setting, file string) {
		if file == "" {
			return
		}
		if _, err := certs.Pool(file); err != nil {
			all = append(all, fileFault(setting, file, err))
		}
	}
	read("REDIS_TLS_CA_FILE", c.RedisCAFile())
	if cfg, err := c.Remote(); err == nil && c.UsesRemote() {
		read("REMOTE_CA_FILE", cfg.CAFile)
	}
	if c.Decision.Port != 0 {
		read("DECISION_TLS_CLIENT_CA", c.Decision.ClientCAFile)
		read("GRPC_TLS_CLIENT_CA", c.Decision.GRPC.ClientCAFile)
	}
	return errors.Join(all...)
}

// checkRules reads the files of rules and clients, each separately if they are not valid
// together. templates is nil if the templates are invalid.
func checkRules(c *config.Config, templates *admin.Templates) error {
	files := ruleFiles(c, templates)
	read := func(files admin.RuleFiles) error {
		_, err := admin.NewRules(time.Now(), files, new(simredis.DocumentStore),
			func(string) *slog.Logger { return slog.New(slog.DiscardHandler) })
		return err
	}
	err := read(files)
	if about, ok := errors.AsType[*service.SettingError](err); ok && about.Name == "RULES_FILE" {
		files.Rules = ""
		err = errors.Join(err, read(files))
	}
	return err
}

// fileFault returns the error that the file named by a setting cannot be used.
func fileFault(setting, file string, err error) error {
	return &service.SettingError{Name: setting, Value: file, Problem: "cannot be used: " + err.Error(),
		Allowed: "a PEM file of certificates"}
}
