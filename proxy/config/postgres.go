package config

import (
	"errors"
	"strconv"
	"time"

	"weir/internal/program/service"
	shared "weir/proxy/deferred/postgres"
	"weir/proxy/store/postgres"
)

// postgresSettings has the settings of the store in PostgreSQL, as given.
type postgresSettings struct {
	postgres.Config // without Failure and Manual
	migrate         string
}

func (p *postgresSettings) register(s *service.Settings) {
	s.Secret(&p.URL, "POSTGRES_URL",
		"PostgreSQL 13 or later, instead of Redis: postgres://user:password@host:port/database?sslmode=verify-full; with "+
			"standbys several hosts, comma separated")
	s.Duration(&p.Timeout, "POSTGRES_TIMEOUT", 100*time.Millisecond, time.Millisecond, 2*time.Second,
		"how long a request waits for a decision")
	s.Int(&p.Connections, "POSTGRES_CONNECTIONS", 2, 1, 64,
		"connections to PostgreSQL for decisions, in addition to one for documents")
	s.Func("POSTGRES_SCHEMA", "weir",
		"schema of the tables and functions; the flag without a value prints the SQL that creates them", "",
		func(name string) error { p.Schema = name; return postgres.CheckSchema(name) })
	s.String(&p.KeyPrefix, "POSTGRES_KEY_PREFIX", "",
		"prefix of every name in PostgreSQL, for several installations that share a schema")
	s.Bool(&p.Durable, "POSTGRES_DURABLE", false,
		"true: create logged tables, of which a crash of PostgreSQL loses at most the last second, at several times the "+
			"cost; false: a crash loses all consumption")
	s.Enum(&p.migrate, "POSTGRES_MIGRATE", "true", []string{"true", "false", "print"},
		"true: create or migrate tables and functions at the start; false: they exist; print: print the SQL that "+
			"creates them, and exit")
	s.Alone("POSTGRES_SCHEMA", "POSTGRES_MIGRATE", "print")
}

// UsesPostgres reports whether limits are kept in PostgreSQL.
func (c *Config) UsesPostgres() bool { return c.postgres.URL != "" }

// notePostgres notes settings shared by the store and the queue in PostgreSQL that have
// no effect.
func (c *Config) notePostgres() {
	if c.UsesPostgres() || c.Defer.inPostgres != "" {
		return
	}
	const note = " has no effect while neither POSTGRES_URL nor DEFER_URL names PostgreSQL"
	if c.postgres.Schema != "weir" {
		c.Notes = append(c.Notes, "POSTGRES_SCHEMA"+note)
	}
	if c.postgres.migrate == "false" {
		c.Notes = append(c.Notes, "POSTGRES_MIGRATE"+note)
	}
}

// PostgresSchema returns the SQL that creates tables and functions for limits and for the
// queue of deferred requests, if it was asked for.
func (c *Config) PostgresSchema() string {
	if c.postgres.migrate != "print" {
		return ""
	}
	name := c.postgres.Schema
	return postgres.Printed(name, postgres.Schema(name, c.postgres.Durable), shared.Schema(name))
}

// Postgres returns the configuration of the store in PostgreSQL, without Local and Log.
// The error joins a *service.SettingError for each fault.
func (c *Config) Postgres() (postgres.Config, error) {
	cfg := c.postgres.Config
	cfg.Failure, cfg.Manual = c.redis.Failure, c.postgres.migrate != "true"
	var all []error
	if c.UsesRedis() {
		all = append(all, &service.SettingError{Name: "POSTGRES_URL", Value: "", Problem: "excludes REDIS_HOST",
			Allowed: "one of the two"})
	}
	all = append(all, faultsOf(cfg.Validate(), map[string]service.SettingError{
		"URL": {Name: "POSTGRES_URL"}, "Connections": {Name: "POSTGRES_CONNECTIONS",
			Value: strconv.Itoa(cfg.Connections)}, "KeyPrefix": {Name: "POSTGRES_KEY_PREFIX", Value: cfg.KeyPrefix},
	}))
	return cfg, errors.Join(all...)
}
