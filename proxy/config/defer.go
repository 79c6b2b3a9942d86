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

// DeferredRequests has the settings of deferred requests.
type DeferredRequests struct {
	Path       string // prefix of status URLs
	BodyMax    int64
	Rate       int // entries accepted per second
	Limits     deferred.Limits
	SameClient bool
	Callbacks  *callback.Hosts // nil: callbacks are off
	Secret     callback.Secret // signs callbacks

	queueURL
	redis     redis.Config // of the queue in Redis
	proxyURLs deferred.ProxyURLs
	setting   string // setting that the URL of the queue in PostgreSQL comes from
	schema    string
	manual    bool // only an administrator creates the schema
	keyFile   string
	key       []byte
	secret    string
}

// ownPaths are the prefixes of the proxy's own paths.
var ownPaths = []string{"/config/", "/actuator/", "/metrics", "/reload"}

func (d *DeferredRequests) register(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "DEFER_URL", Value: service.Func(&d.queueURL, deferURLs, parseQueueURL),
			NoEffect: s.NoEffectWhen("TARGET_URL", noTargets),
			Help: "queue of refused requests that rules with defer deliver later: a file of one proxy, or Redis or PostgreSQL " +
				"shared by several; none: rules must not have defer"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("DEFER_URL", ""), service.SettingList{
		{Name: "DEFER_PATH", Default: "/deferred/",
			Value: service.Func(&d.Path, "a path other than / that begins and ends with /", deferPath),
			Help:  "prefix of the paths at which clients see the state of a deferred request"},
		{Name: "DEFER_ADVERTISE",
			Value: service.Func(&d.proxyURLs, "http://host:port or https://host:port, comma separated, at most 64",
				deferred.ParseProxyURLs),
			Help: "URLs at which clients reach the proxies that each have their own queue file, this proxy's first: a proxy " +
				"that is asked for a request of another redirects there (307)"},
		{Name: "DEFER_MAX", Default: "100000", Value: service.Int(&d.Limits.Entries, 1, 10_000_000),
			Help: "maximum number of waiting requests of all rules, a tenth of them of one client; beyond: 429"},
		{Name: "DEFER_MAX_BYTES", Default: "1GiB", Value: service.Bytes(&d.Limits.Bytes, 1<<20, 1<<40),
			Help: "maximum size of everything stored, including results, a tenth of it of one client; beyond: 429"},
		{Name: "DEFER_BODY_MAX", Default: "256KiB", Value: service.Bytes(&d.BodyMax, 0, 16<<20),
			Help: "maximum size of a stored request's body; beyond: 429"},
		{Name: "DEFER_RATE", Default: "1000", Value: service.Int(&d.Rate, 1, 1_000_000),
			Help: "maximum number of requests stored per second, half of them of one client; beyond: 429, so that a flood of " +
				"requests does not become a flood of writes"},
		{Name: "DEFER_DEAD_KEEP", Default: "168h", Value: service.Duration(&d.Limits.DeadKeep, time.Second, 365*24*time.Hour),
			Help: "how long undeliverable requests are kept"},
		{Name: "DEFER_KEY_FILE", Value: service.String(&d.keyFile),
			Help: "file with the 32-byte key that encrypts stored requests (AES-256-GCM), the same for all proxies of a " +
				"queue; empty: no encryption, and a queue file has mode 0600"},
		{Name: "DEFER_SAME_CLIENT", Default: "true", Value: service.Bool(&d.SameClient),
			Help: "true: only clients with the same rule key see the state of a deferred request; false: everybody who knows " +
				"its id does"},
		{Name: "DEFER_CALLBACK_HOSTS", Value: service.Func(&d.Callbacks, callback.HostsSyntax, callback.ParseHosts),
			Help: "hosts that clients may name in callback URLs, for rules with callback: true; none: no callbacks"},
	})
	s.Add(service.SettingList{
		{Name: "DEFER_CALLBACK_SECRET", Value: service.Secret(&d.secret),
			NoEffect: s.NoEffectWhen("DEFER_CALLBACK_HOSTS", ""),
			Help:     "secret that signs callbacks (Standard Webhooks): " + callback.SecretSyntax},
	})
}

func deferPath(text string) (string, error) {
	if len(text) < 3 || text[0] != '/' || text[len(text)-1] != '/' || strings.ContainsAny(text, "?#% ") ||
		strings.Contains(text, "//") {
		return "", errors.New("is not such a path")
	}
	for _, own := range ownPaths {
		if strings.HasPrefix(text, own) {
			return "", fmt.Errorf("is below %s, which the proxy uses itself", own)
		}
	}
	return text, nil
}

// ProxyURLs returns the proxies that have queue files of their own; nil: others have none.
func (d *DeferredRequests) ProxyURLs() deferred.ProxyURLs {
	if d.file == "" {
		return nil
	}
	return d.proxyURLs
}

// Used reports whether a queue is configured.
func (d *DeferredRequests) Used() bool { return d.file != "" || d.inRedis || d.inPostgres != "" }

// complete reads the files that the settings name, and the parts of the store settings
// that concern the queue.
func (d *DeferredRequests) complete(s *service.Settings, r *redisSettings, p *postgresSettings) error {
	return errors.Join(d.findFolder(s), d.readKey(s), d.readSecret(s), d.completeRedis(s, r), d.completePostgres(s, p))
}

// findFolder checks that the folder of a queue in a file exists. It is not created: a misspelt
// one would be, and the requests that are stored elsewhere would not be delivered.
func (d *DeferredRequests) findFolder(s *service.Settings) error {
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
	return s.Fault("DEFER_URL", problem,
		"a file in a folder that exists and that the proxy may write to: create it, or name another")
}

func (d *DeferredRequests) readSecret(s *service.Settings) (err error) {
	if d.Callbacks == nil || !d.Used() {
		return nil
	}
	if d.secret == "" {
		return s.Fault("DEFER_CALLBACK_SECRET", "is missing, and DEFER_CALLBACK_HOSTS is set", callback.SecretSyntax)
	}
	if d.Secret, err = callback.ParseSecret(d.secret); err != nil {
		return s.Fault("DEFER_CALLBACK_SECRET", err.Error(), callback.SecretSyntax)
	}
	return nil
}

func (d *DeferredRequests) readKey(s *service.Settings) error {
	if d.keyFile == "" || !d.Used() {
		return nil
	}
	const allowed = "a regular file of 32 bytes, as written by head -c 32 /dev/urandom"
	key, err := watch.ReadFile(d.keyFile, deferred.SealKeyBytes)
	if err == nil && len(key) != deferred.SealKeyBytes {
		err = fmt.Errorf("has %d bytes", len(key))
	}
	if err != nil {
		return s.Fault("DEFER_KEY_FILE", err.Error(), allowed)
	}
	d.key = key
	return nil
}

// Open opens the queue.
func (d *DeferredRequests) Open(log *slog.Logger) (deferred.Queue, error) {
	switch {
	case d.inRedis:
		return d.openRedis(log)
	case d.inPostgres != "":
		return d.openPostgres(log)
	}
	return file.Open(time.Now(), file.Config{Path: d.file, Limits: d.Limits, Key: d.key, Log: log})
}
