package config

import (
	"errors"
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

func (p *postgresSettings) register(s *service.Settings, unused func() string) {
	noURL := s.NoEffectWhen("POSTGRES_URL", "")
	s.Add(service.SettingList{
		{Name: "POSTGRES_URL", Value: service.Secret(&p.URL),
			Help: "PostgreSQL 13 or later, instead of Redis: postgres://user:password@host:port/database?sslmode=verify-full; " +
				"with standbys several hosts, comma separated"},
		{Name: "POSTGRES_TIMEOUT", Default: "100ms", Value: service.Duration(&p.Timeout, time.Millisecond, 2*time.Second),
			NoEffect: noURL, Help: "how long a request waits for a decision"},
		{Name: "POSTGRES_CONNECTIONS", Default: "2", Value: service.Int(&p.Connections, 1, 64), NoEffect: noURL,
			Help: "connections to PostgreSQL for decisions, in addition to one for documents"},
		{Name: "POSTGRES_SCHEMA", Default: "weir",
			Value: service.Func(&p.Schema, "", schema), NoEffect: unused, Alone: "-postgres-migrate=print",
			Help: "schema of the tables and functions; the flag without a value prints the SQL that creates them"},
		{Name: "POSTGRES_KEY_PREFIX", Value: service.String(&p.KeyPrefix), NoEffect: noURL,
			Help: "prefix of every name in PostgreSQL, for several installations that share a schema"},
		{Name: "POSTGRES_DURABLE", Default: "false", Value: service.Bool(&p.Durable), NoEffect: noURL,
			Help: "true: create logged tables, of which a crash of PostgreSQL loses at most the last second, at several times " +
				"the cost; false: a crash loses all consumption"},
		{Name: "POSTGRES_MIGRATE", Default: "true", Value: service.StringEnum(&p.migrate, "true, false, print"),
			NoEffect: unused,
			Help: "true: create or migrate tables and functions at the start; false: they exist; print: print the SQL that " +
				"creates them, and exit"},
	})
}

func schema(name string) (string, error) { return name, postgres.CheckSchema(name) }

// UsesPostgres reports whether limits are kept in PostgreSQL.
func (c *Config) UsesPostgres() bool { return c.postgres.URL != "" }

// withoutPostgres says why the settings shared by the store and the queue in PostgreSQL have no effect.
func (c *Config) withoutPostgres() string {
	if c.UsesPostgres() || c.Defer.inPostgres != "" {
		return ""
	}
	return "while neither POSTGRES_URL nor DEFER_URL names PostgreSQL"
}

// PostgresSchema returns the SQL that creates tables and functions for limits and for the
// queue of deferred requests, if it was asked for.
func (c *Config) PostgresSchema() string {
	if c.postgres.migrate != "print" {
		return ""
	}
	name := c.postgres.Schema
	return postgres.InstallScript(name, postgres.Schema(name, c.postgres.Durable), shared.Schema(name))
}

// Postgres returns the configuration of the store in PostgreSQL, without Local and Log.
// The error joins a *service.SettingError for each fault.
func (c *Config) Postgres() (postgres.Config, error) {
	cfg := c.postgres.Config
	cfg.Failure, cfg.Manual = c.redis.Failure, c.postgres.migrate != "true"
	return cfg, errors.Join(
		c.settings.FaultIf(c.UsesRedis(), "POSTGRES_URL", "excludes REDIS_HOST", "one of the two"),
		faultsOf(c.settings, cfg.Validate(), map[string]string{
			"URL": "POSTGRES_URL", "Connections": "POSTGRES_CONNECTIONS", "KeyPrefix": "POSTGRES_KEY_PREFIX"}))
}
