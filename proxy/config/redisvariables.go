package config

import (
	"strconv"
	"strings"
	"time"
)

// topology reads the kind of a Redis.
func topology(setting string) reading {
	return func(t *translation, value string) error {
		mode := strings.ToLower(value)
		if mode != "single" && mode != "cluster" && mode != "sentinel" {
			return t.wrong(value, "SINGLE, CLUSTER, SENTINEL", "is unknown")
		}
		t.put(setting, mode)
		return nil
	}
}

// redisURL reads where Redis is.
func redisURL(t *translation, value string) error {
	u, err := readRedisURL("REDIS_URL", value, strings.EqualFold(t.env("REDIS_TYPE"), "sentinel"))
	if err != nil {
		return err
	}
	if u.master != "" {
		t.put("REDIS_SENTINEL_MASTER", u.master)
	}
	if u.tls {
		t.put("REDIS_TLS", "true")
	}
	if u.username != "" || u.password != "" {
		t.put("REDIS_USERNAME", u.username)
		t.put("REDIS_PASSWORD", u.password)
	}
	if u.db != "" {
		t.put("REDIS_DB", u.db)
	}
	t.put("REDIS_HOST", u.hosts)
	return nil
}

// perSecondURL reads where the second Redis is.
func perSecondURL(t *translation, value string) error {
	if strings.Contains(value, "rediss://") {
		t.put("REDIS_PERSECOND_TLS", "true")
	}
	return same(t, value)
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
		name, secret := nameAndPassword(value)
		if name != "" {
			t.put(user, name)
		}
		t.put(password, secret)
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
	t.put(t.variable, value)
	return nil
}
