package config

import (
	"net/url"
	"strings"

	"weir/internal/program/service"
)

// A redisAddress is what envoyproxy/ratelimit reads in a URL of Redis.
type redisAddress struct {
	hosts, master          string // those of the Sentinels if there is a master
	username, password, db string
	tls                    bool
}

// readRedisURL reads host:port or redis://user:password@host:port/db, several of them for a Cluster, and before
// those of Sentinels the name of the master. The error is about the setting.
func readRedisURL(setting, value string, sentinels bool) (u redisAddress, err error) {
	list := strings.Split(value, ",")
	if sentinels {
		u.master = strings.TrimSpace(list[0])
		if list = list[1:]; len(list) == 0 {
			return u, &service.SettingError{Name: setting, Value: value, Problem: "names no Sentinels",
				Allowed: "the name of the master, and after a comma the addresses of the Sentinels"}
		}
	}
	var hosts []string
	for _, one := range list {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			hosts = append(hosts, one)
			continue
		}
		parsed, err := url.Parse(one)
		if err != nil || parsed.Scheme != "redis" && parsed.Scheme != "rediss" || parsed.Host == "" {
			return u, &service.SettingError{Name: setting, Value: value, Problem: "is no address of Redis",
				Allowed: "host:port, or redis://host:port"}
		}
		hosts = append(hosts, parsed.Host)
		u.tls = u.tls || parsed.Scheme == "rediss"
		if password, given := parsed.User.Password(); given {
			u.username, u.password = parsed.User.Username(), password
		}
		if db := strings.Trim(parsed.Path, "/"); db != "" {
			u.db = db
		}
	}
	u.hosts = strings.Join(hosts, ",")
	return u, nil
}

// nameAndPassword reads a password, or a user name and a password with a colon between them.
func nameAndPassword(text string) (name, password string) {
	if name, password, both := strings.Cut(text, ":"); both {
		return name, password
	}
	return "", text
}
