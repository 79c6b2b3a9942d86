package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weir/proxy/store"
)

// The durability of a server, as shown by Stats.
const (
	durabilityUnknown  = "unknown"
	durabilityMemory   = "memory"
	durabilityEverySec = "everysec"
	durabilityAlways   = "always"
)

// A fault is why the queue cannot be used.
type fault struct {
	class     store.ErrorClass
	code      string // the server's error code; empty if it has not answered
	permanent bool   // only an operator can end it
	full      bool   // the server is out of memory; entries can still be delivered
	err       error
}

// Error describes the fault, and what to do about it.
func (f *fault) Error() string {
	if remedy := remedies[f.code]; remedy != "" {
		return fmt.Sprintf("%s: %v", remedy, f.err)
	}
	if f.class >= store.TimeoutFault && f.code == "" {
		return fmt.Sprintf("Redis does not answer, see DEFER_URL, REDIS_PORT, REDIS_TLS: %v", f.err)
	}
	return f.err.Error()
}

// Unwrap returns the error of the server or the network.
func (f *fault) Unwrap() error { return f.err }

// remedies explain error codes of the server, with the settings to change.
var remedies = map[string]string{
	"OOM": "Redis is out of memory and stores nothing more, but what it has is delivered: raise its maxmemory, " +
		"or lower DEFER_MAX_BYTES",
	"READONLY": "DEFER_URL leads to a replica: it must lead to the master, or name Sentinels with " +
		"REDIS_SENTINEL_MASTER",
	"LOADING":     "Redis is loading its data; the queue continues when that is done",
	"MISCONF":     "Redis cannot save to its disk: see its log, and stop-writes-on-bgsave-error",
	"NOREPLICAS":  "Redis has too few replicas: see its min-replicas-to-write",
	"MASTERDOWN":  "DEFER_URL leads to a replica whose master is unavailable",
	"CLUSTERDOWN": "the Redis Cluster does not serve all slots",
	"MOVED":       "DEFER_URL leads to a node of a Cluster: set REDIS_MODE=cluster, or auto",
	"WRONGPASS":   "Redis does not accept REDIS_USERNAME and REDIS_PASSWORD",
	"NOAUTH":      "Redis requires a password: set REDIS_PASSWORD",
	"NOPERM":      "the user of REDIS_USERNAME lacks a right that the queue needs",
	"BUSY":        "Redis is running another client's script",
	"WEIRVERSION": "the queue was made by a newer version of the proxy: update this one, or set another REDIS_KEY_PREFIX",
	"WEIRKEY": "entries of the queue are encrypted with another key than that of DEFER_KEY_FILE, or not at all: " +
		"give all proxies the same DEFER_KEY_FILE, or set another REDIS_KEY_PREFIX",
}

func (q *Queue) faultOf(err error) *fault {
	if known, ok := errors.AsType[*fault](err); ok {
		return known
	}
	f := q.client.Fault(err)
	known := &fault{class: f.Class, code: f.Code, permanent: f.Permanent != nil, full: f.Code == "OOM", err: err}
	switch known.code {
	case "WEIRVERSION", "WEIRKEY":
		known.permanent, known.class = true, store.OutageFault
	case "ERR": // before Redis 7 errors of scripts have no other code
		known.code = ""
	}
	if f.Permanent != nil && remedies[known.code] == "" {
		known.code = wordOf(f.Permanent.Cause)
	}
	return known
}

// wordOf returns the error code of a cause for which older servers have different ones.
func wordOf(c store.MisconfigCause) string {
	switch c {
	case store.Unauthenticated:
		return "WRONGPASS"
	case store.Unauthorized:
		return "NOPERM"
	}
	return ""
}

// durability returns how durable an accepted entry is, as far as is known.
func (q *Queue) durability() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.durable
}

// readSettings reads how durable the server is, and whether it may evict entries. Of several
// nodes the least durable counts.
func (q *Queue) readSettings(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	durable := durabilityUnknown
	saves, err := q.client.Settings(ctx, "append*")
	for i, s := range saves {
		if d := durabilityOf(s); i == 0 || d == durabilityMemory || d == durabilityEverySec && durable == durabilityAlways {
			durable = d
		}
	}
	var policy string
	memory, evictErr := q.client.Settings(ctx, "maxmemory*")
	for _, s := range memory {
		if p := s["maxmemory-policy"]; strings.HasPrefix(p, "allkeys") && s["maxmemory"] != "0" {
			policy = p
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil || q.client.Fault(err).Code != "" { // without an answer the last known value stays
		q.durable = durable
	}
	if evictErr == nil && policy != "" && !q.evicts {
		q.log.Warn("Redis may drop entries when its memory is full: set its maxmemory-policy to noeviction",
			"maxmemory-policy", policy)
	}
	if evictErr == nil {
		q.evicts = policy != ""
	}
}

func durabilityOf(settings map[string]string) string {
	switch {
	case settings["appendonly"] == "" || settings["appendfsync"] == "":
		return durabilityUnknown
	case settings["appendonly"] == "yes" && settings["appendfsync"] == "always":
		return durabilityAlways
	case settings["appendonly"] == "yes" && settings["appendfsync"] == "everysec":
		return durabilityEverySec
	}
	return durabilityMemory
}

// broken records why the queue cannot be written.
func (q *Queue) broken(f *fault) {
	if known, ok := q.box.Fail(f).(*fault); !ok || known.code != f.code {
		q.log.Error("Queue cannot be written, refusing instead", "reason", f)
	}
}
