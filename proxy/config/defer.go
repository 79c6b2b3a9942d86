package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/program/service"
	"weir/internal/program/watch"
	"weir/proxy/deferred"
	"weir/proxy/deferred/callback"
	"weir/proxy/deferred/file"
	"weir/proxy/store/redis"
)

// Defer has the settings of deferred requests.
type Defer struct {
	Path       string // prefix of status URLs
	BodyMax    int64
	Rate       int // entries accepted per second
	Limits     deferred.Limits
	SameClient bool
	Callbacks  *callback.Hosts // nil: callbacks are off
	Secret     callback.Secret // signs callbacks

	file       string       // of the queue; empty: not in a file
	inRedis    bool         // the queue is in Redis
	hosts      string       // of the queue in Redis; empty: those of REDIS_HOST
	redis      redis.Config // of the queue in Redis
	inPostgres string       // URL of the queue in PostgreSQL; empty: not there
	sites      deferred.Sites
	setting    string // setting that this URL comes from
	schema     string
	manual     bool // only an administrator creates the schema
	keyFile    string
	key        []byte
	secret     string
}

// ownPaths are the prefixes of the proxy's own paths.
var ownPaths = []string{"/config/", "/actuator/", "/metrics", "/reload"}

func (d *Defer) register(s *service.Settings) {
	s.Func("DEFER_URL", "", "queue of refused requests that rules with defer deliver later: a file of one proxy, or "+
		"Redis or PostgreSQL shared by several; none: rules must not have defer",
		deferURLs, d.setURL)
	s.Func("DEFER_PATH", "/deferred/", "prefix of the paths at which clients see the state of a deferred request",
		"a path other than / that begins and ends with /",
		func(text string) error {
			if len(text) < 3 || text[0] != '/' || text[len(text)-1] != '/' || strings.ContainsAny(text, "?#% ") ||
				strings.Contains(text, "//") {
				return errors.New("is not such a path")
			}
			for _, own := range ownPaths {
				if strings.HasPrefix(text, own) {
					return fmt.Errorf("is below %s, which the proxy uses itself", own)
				}
			}
			d.Path = text
			return nil
		})
	s.Func("DEFER_ADVERTISE", "",
		"URLs at which clients reach the proxies that each have their own queue file, this proxy's first: a proxy that is "+
			"asked for a request of another redirects there (307)",
		"http://host:port or https://host:port, comma separated, at most 64", parsed(&d.sites, deferred.ParseSites))
	s.Int(&d.Limits.Entries, "DEFER_MAX", 100_000, 1, 10_000_000,
		"maximum number of waiting requests of all rules, a tenth of them of one client; beyond: 429")
	s.Bytes(&d.Limits.Bytes, "DEFER_MAX_BYTES", 1<<30, 1<<20, 1<<40,
		"maximum size of everything stored, including results, a tenth of it of one client; beyond: 429")
	s.Bytes(&d.BodyMax, "DEFER_BODY_MAX", 256<<10, 0, 16<<20, "maximum size of a stored request's body; beyond: 429")
	s.Int(&d.Rate, "DEFER_RATE", 1000, 1, 1_000_000,
		"maximum number of requests stored per second, half of them of one client; beyond: 429, so that a flood of "+
			"requests does not become a flood of writes")
	s.Duration(&d.Limits.DeadKeep, "DEFER_DEAD_KEEP", 168*time.Hour, time.Second, 365*24*time.Hour,
		"how long undeliverable requests are kept")
	s.String(&d.keyFile, "DEFER_KEY_FILE", "",
		"file with the 32-byte key that encrypts stored requests (AES-256-GCM), the same for all proxies of a queue; "+
			"empty: no encryption, and a queue file has mode 0600")
	s.Bool(&d.SameClient, "DEFER_SAME_CLIENT", true,
		"true: only clients with the same rule key see the state of a deferred request; false: everybody "+
			"who knows its id does")
	s.Func("DEFER_CALLBACK_HOSTS", "",
		"hosts that clients may name in callback URLs, for rules with callback: true; none: no callbacks",
		callback.HostsAllowed, parsed(&d.Callbacks, callback.ParseHosts))
	s.Secret(&d.secret, "DEFER_CALLBACK_SECRET", "secret that signs callbacks (Standard Webhooks): "+
		callback.SecretAllowed)
	s.NoEffect("DEFER_URL", "", "DEFER_PATH", "DEFER_ADVERTISE", "DEFER_MAX", "DEFER_MAX_BYTES", "DEFER_BODY_MAX",
		"DEFER_RATE", "DEFER_DEAD_KEEP", "DEFER_KEY_FILE", "DEFER_SAME_CLIENT", "DEFER_CALLBACK_HOSTS")
	s.NoEffect("DEFER_CALLBACK_HOSTS", "", "DEFER_CALLBACK_SECRET")
}

// Sites returns the proxies that have queue files of their own; nil: others have none.
func (d *Defer) Sites() deferred.Sites {
	if d.file == "" {
		return nil
	}
	return d.sites
}

// Used reports whether a queue is configured.
func (d *Defer) Used() bool { return d.file != "" || d.inRedis || d.inPostgres != "" }

// complete reads the files that the settings name, and the parts of the store settings
// that concern the queue.
func (d *Defer) complete(r *redisSettings, p *postgresSettings) error {
	return errors.Join(d.findFolder(), d.readKey(), d.readSecret(), d.completeRedis(r), d.completePostgres(p))
}

// findFolder checks that the folder of a queue in a file exists. It is not created: a misspelt
// one would be, and the requests that are stored elsewhere would not be delivered.
func (d *Defer) findFolder() error {
	if d.file == "" {
		return nil
	}
	folder := filepath.Dir(d.file)
	problem := ""
	if info, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		problem = fmt.Sprintf("is in the folder %s, which does not exist", folder)
	} else if err == nil && !info.IsDir() {
		problem = fmt.Sprintf("is in %s, which is not a folder", folder)
	} else {
		return nil // other errors are reported when the queue is opened
	}
	return &service.SettingError{Name: "DEFER_URL", Value: "file:" + d.file, Problem: problem,
		Allowed: "a file in a folder that exists and that the proxy may write to: create it, or name another"}
}

func (d *Defer) readSecret() (err error) {
	if d.Callbacks == nil || !d.Used() {
		return nil
	}
	if d.Secret, err = callback.ParseSecret(d.secret); err != nil {
		fault := &service.SettingError{Name: "DEFER_CALLBACK_SECRET", Value: "***", Problem: err.Error(),
			Allowed: callback.SecretAllowed}
		if d.secret == "" {
			fault.Value, fault.Problem = "", "is missing, and DEFER_CALLBACK_HOSTS is set"
		}
		return fault
	}
	return nil
}

func (d *Defer) readKey() error {
	if d.keyFile == "" || !d.Used() {
		return nil
	}
	const allowed = "a regular file of 32 bytes, as written by head -c 32 /dev/urandom"
	key, err := watch.ReadFile(d.keyFile, deferred.KeyBytes)
	if err == nil && len(key) != deferred.KeyBytes {
		err = fmt.Errorf("has %d bytes", len(key))
	}
	if err != nil {
		return &service.SettingError{Name: "DEFER_KEY_FILE", Value: d.keyFile, Problem: err.Error(), Allowed: allowed}
	}
	d.key = key
	return nil
}

// Open opens the queue.
func (d *Defer) Open(log *slog.Logger) (deferred.Queue, error) {
	switch {
	case d.inRedis:
		return d.openRedis(log)
	case d.inPostgres != "":
		return d.openPostgres(log)
	}
	return file.Open(time.Now(), file.Config{Path: d.file, Limits: d.Limits, Key: d.key, Log: log})
}
