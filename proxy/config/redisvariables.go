package config

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

func redisType(t *translation, value string) error {
	mode := strings.ToLower(value)
	if mode != "single" && mode != "cluster" && mode != "sentinel" {
		return t.wrong(value, "SINGLE, CLUSTER, SENTINEL", "is unknown")
	}
	t.put("REDIS_MODE", mode)
	return nil
}

// redisURL reads host:port or redis://user:password@host:port/db, several of them for a Cluster, and
// before those of Sentinels the name of the master.
func redisURL(t *translation, value string) error {
	list := strings.Split(value, ",")
	if strings.EqualFold(t.env("REDIS_TYPE"), "sentinel") {
		t.put("REDIS_SENTINEL_MASTER", strings.TrimSpace(list[0]))
		if list = list[1:]; len(list) == 0 {
			return t.wrong(value, "the name of the master, and after a comma the addresses of the Sentinels",
				"names no Sentinels")
		}
	}
	var hosts []string
	for _, one := range list {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			hosts = append(hosts, one)
			continue
		}
		u, err := url.Parse(one)
		if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "" {
			return t.wrong(value, "host:port, or redis://host:port", "is no address of Redis")
		}
		hosts = append(hosts, u.Host)
		if u.Scheme == "rediss" {
			t.put("REDIS_TLS", "true")
		}
		if password, given := u.User.Password(); given {
			t.put("REDIS_USERNAME", u.User.Username())
			t.put("REDIS_PASSWORD", password)
		}
		if db := strings.Trim(u.Path, "/"); db != "" {
			t.put("REDIS_DB", db)
		}
	}
	t.put("REDIS_HOST", strings.Join(hosts, ","))
	return nil
}

// redisTLS reads whether Redis is used with TLS, which must not contradict the URL.
func redisTLS(t *translation, value string) error {
	if use, err := strconv.ParseBool(value); err == nil && !use && t.values["REDIS_TLS"] == "true" {
		return t.wrong(value, "true, or redis:// in REDIS_URL", "contradicts rediss:// in REDIS_URL")
	}
	return same(t, value)
}

// credentials reads a password, or a user name and a password with a colon between.
func credentials(user, password string) reading {
	return func(t *translation, value string) error {
		if name, secret, both := strings.Cut(value, ":"); both {
			t.put(user, name)
			value = secret
		}
		t.put(password, value)
		return nil
	}
}

func sentinelAuth(t *translation, value string) error {
	if !strings.EqualFold(t.env("REDIS_TYPE"), "sentinel") {
		t.ignore("has no effect without REDIS_TYPE=SENTINEL")
		return nil
	}
	return credentials("REDIS_SENTINEL_USERNAME", "REDIS_SENTINEL_PASSWORD")(t, value)
}

// redisTimeoutMax is the largest REDIS_TIMEOUT.
const redisTimeoutMax = 2 * time.Second

// redisTimeout reads the timeout of Redis. That of envoyproxy/ratelimit may be longer than Weir's.
func redisTimeout(t *translation, value string) error {
	if wait, err := time.ParseDuration(value); err == nil && wait > redisTimeoutMax {
		value = redisTimeoutMax.String()
		t.readAs(value + ": no request waits longer")
	}
	t.put("REDIS_TIMEOUT", value)
	return nil
}
