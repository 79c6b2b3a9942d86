package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"weir/internal/service"
	"weir/proxy/callback"
	"weir/proxy/deferred"
	"weir/proxy/deferred/file"
	"weir/proxy/store/redis"
)

// Defer is the settings of requests that are delivered later.
type Defer struct {
	Path       string // what status URLs begin with
	BodyMax    int64
	Rate       int // entries accepted per second
	DeadKeep   time.Duration
	SameClient bool
	Callbacks  *callback.Hosts // nil: there are none
	Secret     callback.Secret // that signs them

	file       string       // of the queue; empty: it is not in a file
	inRedis    bool         //
	hosts      string       // of the queue in Redis; empty: those of REDIS_HOST
	redis      redis.Config // of the queue in Redis
	inPostgres string       // URL of the queue in PostgreSQL; empty: it is not there
	setting    string       // that has this URL
	schema     string
	manual     bool // nobody but an administrator makes the schema
	limits     deferred.Limits
	keyFile    string
	key        []byte
	secret     string
}

// ownPaths are the beginnings of the paths that are the proxy's own.
var ownPaths = []string{"/config/", "/actuator/", "/metrics", "/reload"}

// register adds the settings to s.
func (d *Defer) register(s *service.Settings) {
	s.Func("DEFER_URL", "", "queue of refused requests that rules with defer have delivered later, in a file of one proxy, or in Redis or PostgreSQL for all that name it; none: there are no such rules",
		deferURLs, d.choose)
	s.Func("DEFER_PATH", "/deferred/", "what the paths begin with at which clients see what became of such a request", "a path that begins and ends with /, and is not /",
		func(text string) error {
			if len(text) < 3 || text[0] != '/' || text[len(text)-1] != '/' || strings.ContainsAny(text, "?#% ") || strings.Contains(text, "//") {
				return errors.New("is no such path")
			}
			for _, own := range ownPaths {
				if strings.HasPrefix(text, own) {
					return fmt.Errorf("is below %s, which is the proxy's own", own)
				}
			}
			d.Path = text
			return nil
		})
	s.Int(&d.limits.Entries, "DEFER_MAX", 100_000, 1, 10_000_000, "requests that wait, of all rules; beyond: 429")
	s.Bytes(&d.limits.Bytes, "DEFER_MAX_BYTES", 1<<30, 1<<20, 1<<40, "bytes of all that is stored, results too; beyond: 429")
	s.Bytes(&d.BodyMax, "DEFER_BODY_MAX", 256<<10, 0, 16<<20, "largest body of a request that is stored; beyond: 429")
	s.Int(&d.Rate, "DEFER_RATE", 1000, 1, 1_000_000, "requests stored per second; beyond: 429, so that a flood does not become one of writes to disk")
	s.Duration(&d.DeadKeep, "DEFER_DEAD_KEEP", 168*time.Hour, time.Second, 365*24*time.Hour, "how long requests are kept that could not be delivered")
	s.String(&d.keyFile, "DEFER_KEY_FILE", "", "file of 32 bytes with which stored requests are encrypted (AES-256-GCM); empty: they are not, and a file has mode 0600; all proxies of a queue need the same")
	s.Bool(&d.SameClient, "DEFER_SAME_CLIENT", true, "what became of a request is told only to who has the same key of its rule; false: to all who know its id")
	s.Func("DEFER_CALLBACK_HOSTS", "", "hosts that are told what became of a request, at a URL that its client names, if its rule has callback: true; none: nobody is",
		callback.HostsAllowed, func(text string) (err error) {
			d.Callbacks, err = callback.ParseHosts(text)
			return err
		})
	s.Secret(&d.secret, "DEFER_CALLBACK_SECRET", "signs callbacks as Standard Webhooks says: "+callback.SecretAllowed)
	s.NoEffect("DEFER_URL", "", "DEFER_PATH", "DEFER_MAX", "DEFER_MAX_BYTES", "DEFER_BODY_MAX", "DEFER_RATE", "DEFER_DEAD_KEEP", "DEFER_KEY_FILE", "DEFER_SAME_CLIENT", "DEFER_CALLBACK_HOSTS")
	s.NoEffect("DEFER_CALLBACK_HOSTS", "", "DEFER_CALLBACK_SECRET")
}

// Used reports whether there is a queue.
func (d *Defer) Used() bool { return d.file != "" || d.inRedis || d.inPostgres != "" }

// complete reads what the settings name, and what those of the stores say of the queue.
func (d *Defer) complete(r *redisSettings, p *postgresSettings) error {
	return errors.Join(d.readKey(), d.readSecret(), d.completeRedis(r), d.completePostgres(p))
}

// readSecret reads the secret of callbacks.
func (d *Defer) readSecret() (err error) {
	if d.Callbacks == nil || !d.Used() {
		return nil
	}
	if d.Secret, err = callback.ParseSecret(d.secret); err != nil {
		fault := &service.SettingError{Name: "DEFER_CALLBACK_SECRET", Value: "***", Problem: err.Error(), Allowed: callback.SecretAllowed}
		if d.secret == "" {
			fault.Value, fault.Problem = "", "is missing, and DEFER_CALLBACK_HOSTS is set"
		}
		return fault
	}
	return nil
}

// readKey reads the key with which entries are encrypted.
func (d *Defer) readKey() error {
	if d.keyFile == "" || !d.Used() {
		return nil
	}
	const allowed = "a file of 32 bytes, such as head -c 32 /dev/urandom makes"
	key, err := os.ReadFile(d.keyFile)
	if err != nil {
		return &service.SettingError{Name: "DEFER_KEY_FILE", Value: d.keyFile, Problem: err.Error(), Allowed: allowed}
	}
	if len(key) != 32 {
		return &service.SettingError{Name: "DEFER_KEY_FILE", Value: d.keyFile, Problem: fmt.Sprintf("has %d bytes", len(key)), Allowed: allowed}
	}
	d.key = key
	return nil
}

// Open opens the queue.
func (d *Defer) Open(log *slog.Logger) (deferred.Queue, error) {
	limits := d.limits
	limits.DeadKeep = d.DeadKeep
	switch {
	case d.inRedis:
		return d.openRedis(limits, log)
	case d.inPostgres != "":
		return d.openPostgres(limits, log)
	}
	return file.Open(time.Now(), file.Config{Path: d.file, Limits: limits, Key: d.key, Log: log})
}
