package config

import (
	"errors"
	"log/slog"
	"strings"

	"weir/internal/program/service"
	"weir/proxy/deferred"
	postgresqueue "weir/proxy/deferred/postgres"
	redisqueue "weir/proxy/deferred/redis"
	"weir/proxy/store"
	"weir/proxy/store/postgres"
)

// deferURLs describes the values of DEFER_URL.
const deferURLs = "file: and an absolute path, such as file:/var/lib/weir/deferred; redis: for the server of " +
	"REDIS_HOST, or redis://host:port; " +
	"postgres: for that of POSTGRES_URL, or postgres://user:password@host:port/database"

// A queueURL says where the queue is.
type queueURL struct {
	file       string // empty: not in a file
	inRedis    bool
	hosts      string // of Redis; empty: those of REDIS_HOST
	inPostgres string // URL of PostgreSQL; empty: not there
}

func parseQueueURL(text string) (q queueURL, err error) {
	scheme, rest, _ := strings.Cut(text, ":")
	hosts, slashes := strings.CutPrefix(rest, "//")
	switch {
	case scheme == "file" && strings.HasPrefix(rest, "/") && !strings.HasSuffix(rest, "/"):
		q.file = rest
	case scheme == "redis" && (rest == "" || slashes && hosts != ""):
		q.inRedis, q.hosts = true, hosts
	case scheme == "redis" || scheme == "rediss":
		err = errors.New("is neither redis: nor redis://host:port; set REDIS_TLS for TLS")
	case scheme == "postgres" || scheme == "postgresql":
		q.inPostgres = text
	default:
		err = errors.New("is not file: and an absolute path, nor a redis: or postgres: URL")
	}
	return q, err
}

// completeRedis determines the servers of a queue in Redis.
func (d *DeferredRequests) completeRedis(s *service.Settings, r *redisSettings) (err error) {
	if !d.inRedis {
		return nil
	}
	if d.hosts != "" {
		d.redis, err = r.config(s, "DEFER_URL", d.hosts)
		return err
	}
	if r.hosts == "" {
		return s.Fault("DEFER_URL", "means the server of REDIS_HOST, which is not set", "redis://host:port, or REDIS_HOST")
	}
	d.redis, _ = r.config(s, "REDIS_HOST", r.hosts) // faults are reported for the settings of the store
	return nil
}

// completePostgres determines the server of a queue in PostgreSQL.
func (d *DeferredRequests) completePostgres(s *service.Settings, p *postgresSettings) error {
	if d.inPostgres == "" {
		return nil
	}
	d.setting, d.schema, d.manual = "DEFER_URL", p.Schema, p.migrate != "true"
	if d.inPostgres == "postgres:" {
		if p.URL == "" {
			return s.Fault("DEFER_URL", "names no server, and POSTGRES_URL is not set", deferURLs)
		}
		d.setting, d.inPostgres = "POSTGRES_URL", p.URL // checked as the store's
		return nil
	}
	cfg := postgres.Config{URL: d.inPostgres, Schema: p.Schema}
	err := faultsOf(s, cfg.Validate(), map[string]string{"URL": "DEFER_URL"})
	if fault, ok := errors.AsType[*service.SettingError](err); ok {
		fault.Value, fault.Allowed = "", deferURLs // the value may contain a password
	}
	return err
}

func (d *DeferredRequests) openRedis(log *slog.Logger) (deferred.Queue, error) {
	q, err := redisqueue.Open(redisqueue.Config{Redis: d.redis, Limits: d.Limits, Key: d.key, Log: log})
	if err != nil {
		return nil, &service.ExitError{Status: 2, Err: err}
	}
	return q, nil
}

func (d *DeferredRequests) openPostgres(log *slog.Logger) (deferred.Queue, error) {
	q, err := postgresqueue.Open(postgresqueue.Config{URL: d.inPostgres, Setting: d.setting, Schema: d.schema,
		Manual: d.manual, Limits: d.Limits, Key: d.key, Log: log})
	if fault := postgres.Classify(err).Permanent; fault != nil && fault.Cause != store.NoSchema { // a setting is wrong
		err = &service.ExitError{Status: 2, Err: err}
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}
