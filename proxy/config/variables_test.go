package config

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
)

// Each variable of envoyproxy/ratelimit sets settings, or the log says what it means here, or the proxy
// does not start.
func TestVariables(t *testing.T) {
	const second = "REDIS_PERSECOND=true REDIS_URL=r:1 REDIS_PERSECOND_URL=s:1"
	known := make(map[string]bool)
	for _, test := range []struct {
		env  string // of variables; the first is the one that is tested
		want string // settings, or after # what is told about it, or after ! why the proxy does not start
	}{
		{"HOST=127.0.0.1", "DECISION_BIND=127.0.0.1"},
		{"PORT=8000", "DECISION_PORT=8000"},
		{"DEBUG_HOST=127.0.0.1", "BIND=127.0.0.1"},
		{"DEBUG_PORT=6000", "PORT=6000"},
		{"GRPC_HOST=127.0.0.1", "GRPC_BIND=127.0.0.1"},
		{"GRPC_PORT=8001", "GRPC_PORT=8001"},
		{"GRPC_UDS=/tmp/x", "GRPC_UDS=/tmp/x GRPC_PORT=0"},
		{"GRPC_UDS=x", "!GRPC_UDS"},
		{"GRPC_MAX_CONNECTION_AGE=1h", ""},
		{"GRPC_MAX_CONNECTION_AGE_GRACE=1h", ""},
		{"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k", "GRPC_TLS_CERT=c GRPC_TLS_KEY=k"},
		{"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c", `!GRPC_SERVER_USE_TLS: "true" has no certificate`},
		{"GRPC_SERVER_USE_TLS=yes", `!GRPC_SERVER_USE_TLS: "yes" is neither`},
		{"GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k", "GRPC_TLS_CERT= # has no effect without GRPC_SERVER_USE_TLS"},
		{"GRPC_SERVER_TLS_KEY=k", "# has no effect without GRPC_SERVER_USE_TLS"},
		{"GRPC_SERVER_TLS_CA_CERT=c", "# has no meaning here"},
		{"GRPC_CLIENT_TLS_CACERT=a GRPC_SERVER_USE_TLS=1 GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k",
			"GRPC_TLS_CLIENT_CA=a"},
		{"GRPC_CLIENT_TLS_SAN=s GRPC_CLIENT_TLS_CACERT=a GRPC_SERVER_USE_TLS=t GRPC_SERVER_TLS_CERT=c " +
			"GRPC_SERVER_TLS_KEY=k", "GRPC_TLS_CLIENT_SAN=s"},

		{"LOG_LEVEL=WARNING", "LOG_LEVEL=warn"},
		{"LOG_LEVEL=Trace", "LOG_LEVEL=debug"},
		{"LOG_LEVEL=PANIC", "LOG_LEVEL=error"},
		{"LOG_FORMAT=JSON", "LOG_FORMAT=json"},

		{"RUNTIME_ROOT=/data", "RATELIMIT_CONFIG=/data/config"},
		{"RUNTIME_SUBDIRECTORY=ratelimit", "RATELIMIT_CONFIG=/srv/runtime_data/current/ratelimit/config"},
		{"RUNTIME_APPDIRECTORY=limits RUNTIME_ROOT=/data", "RATELIMIT_CONFIG=/data/limits"},
		{"RUNTIME_IGNOREDOTFILES=true", "# has no meaning here: hidden files"},
		{"RUNTIME_WATCH_ROOT=false", ""},
		{"RUNTIME_WATCH_ROOT=true", "# has no meaning here: files are watched"},
		{"MERGE_DOMAIN_CONFIG=true", "MERGE_DOMAIN_CONFIG=true"},

		{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_TYPE=GRPC_XDS_SOTW RATELIMIT_CONFIG="},
		{"CONFIG_TYPE=HTTP", "!CONFIG_TYPE"},
		{"RUNTIME_ROOT=/data CONFIG_TYPE=GRPC_XDS_SOTW", "RATELIMIT_CONFIG= # has no effect with CONFIG_TYPE=GRPC_XDS_SOTW"},
		{"CONFIG_GRPC_XDS_SERVER_URL=eg:18001", "CONFIG_GRPC_XDS_SERVER_URL=eg:18001"},
		{"CONFIG_GRPC_XDS_SERVER_URL=eg", `!CONFIG_GRPC_XDS_SERVER_URL: "eg" is not host:port`},
		{"CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit", "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit"},
		{"CONFIG_GRPC_XDS_NODE_METADATA=a=b,c=d", "CONFIG_GRPC_XDS_NODE_METADATA=a=b,c=d"},
		{"CONFIG_GRPC_XDS_NODE_METADATA=a", "!CONFIG_GRPC_XDS_NODE_METADATA"},
		{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=x-team:a", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=x-team:a"},
		{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=secret", `!CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: "***"`},
		{"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_SERVER_USE_TLS=true"},
		{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=ca CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT=ca"},
		{"CONFIG_GRPC_XDS_SERVER_TLS_SAN=eg CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_SERVER_TLS_SAN=eg"},
		{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=c CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=c"},
		{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY=k", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY= # has no effect without"},
		{"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=3s", "# has no meaning here"},
		{"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=3s", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=3s"},
		{"XDS_CLIENT_BACKOFF_MAX_INTERVAL=30s", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=30s"},
		{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR=0.5", "# has no meaning here"},
		{"XDS_CLIENT_BACKOFF_JITTER=true", "# has no meaning here"},
		{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=65536", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=64KiB"},
		{"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "FORCE_START_WITHOUT_INITIAL_CONFIG=true"},
		{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true"},

		{"BACKEND_TYPE=redis", ""},
		{"BACKEND_TYPE=memcache", `!BACKEND_TYPE: "memcache" is a store that Weir does not have; allowed: redis`},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=r:6379", "REDIS_HOST=r:6379"},
		{"REDIS_SOCKET_TYPE=unix REDIS_URL=/run/redis.sock", "REDIS_HOST=/run/redis.sock"},
		{"REDIS_SOCKET_TYPE=udp", "!REDIS_SOCKET_TYPE"},
		{"REDIS_SOCKET_TYPE=unix REDIS_URL=r:6379", `!REDIS_SOCKET_TYPE: "unix" does not fit REDIS_URL=r:6379`},
		{"REDIS_TYPE=CLUSTER REDIS_URL=a:1,b:2", "REDIS_MODE=cluster REDIS_HOST=a:1,b:2"},
		{"REDIS_TYPE=ring", "!REDIS_TYPE"},
		{"REDIS_URL=mymaster,a:1,b:2 REDIS_TYPE=sentinel",
			"REDIS_MODE=sentinel REDIS_HOST=a:1,b:2 REDIS_SENTINEL_MASTER=mymaster"},
		{"REDIS_URL=mymaster REDIS_TYPE=sentinel", `!REDIS_URL: "mymaster" names no Sentinels`},
		{"REDIS_URL=rediss://u:p@r:6379/11",
			"REDIS_HOST=r:6379 REDIS_TLS=true REDIS_USERNAME=u REDIS_PASSWORD=p REDIS_DB=11"},
		{"REDIS_URL=http://r", "!REDIS_URL"},
		{"REDIS_URL=a/b", "!REDIS_HOST: \"a/b\" names no host and port"},
		{"REDIS_AUTH=p", "REDIS_PASSWORD=p REDIS_USERNAME="},
		{"REDIS_AUTH=u:p:q", "REDIS_PASSWORD=p:q REDIS_USERNAME=u"},
		{"REDIS_SENTINEL_AUTH=u:p REDIS_URL=m,a:1 REDIS_TYPE=sentinel",
			"REDIS_SENTINEL_USERNAME=u REDIS_SENTINEL_PASSWORD=p"},
		{"REDIS_SENTINEL_AUTH=u:p", "# has no effect without REDIS_TYPE=SENTINEL"},
		{"REDIS_TLS=true REDIS_URL=r:1", "REDIS_TLS=true"},
		{"REDIS_TLS=true REDIS_URL=rediss://r:1", "REDIS_TLS=true"},
		{"REDIS_TLS=false REDIS_URL=rediss://r:1", `!REDIS_TLS: "false" contradicts rediss:// in REDIS_URL`},
		{"REDIS_TLS_CACERT=ca REDIS_URL=rediss://r:1", "REDIS_TLS_CA_FILE=ca"},
		{"REDIS_TLS_CACERT=ca REDIS_URL=r:1 REDIS_TLS=true", "REDIS_TLS_CA_FILE=ca"},
		{"REDIS_TLS_CACERT=ca REDIS_URL=r:1", "REDIS_TLS_CA_FILE= # has no effect without REDIS_TLS"},
		{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true REDIS_URL=r:1 REDIS_TLS=true",
			"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"},
		{"REDIS_TLS_CLIENT_CERT=c REDIS_TLS_CLIENT_KEY=k REDIS_URL=r:1 REDIS_TLS=true",
			"REDIS_TLS_CLIENT_CERT=c REDIS_TLS_CLIENT_KEY=k"},
		{"REDIS_TLS_CLIENT_KEY=k REDIS_URL=r:1 REDIS_TLS=true", "!REDIS_TLS_CLIENT_CERT: \"\" is missing"},
		{"REDIS_TIMEOUT=50ms", "REDIS_TIMEOUT=50ms"},
		{"REDIS_TIMEOUT=10s", "REDIS_TIMEOUT=2s # is read as 2s"},
		{second, "REDIS_PERSECOND=true"},
		{"REDIS_PERSECOND=false", "REDIS_PERSECOND=false"},
		{"REDIS_PERSECOND=true REDIS_URL=r:1", `!REDIS_PERSECOND_URL: "" is required by REDIS_PERSECOND=true`},
		{"REDIS_PERSECOND=true REDIS_PERSECOND_URL=s:1",
			`!REDIS_PERSECOND: "true" is a second Redis beside that of REDIS_HOST, which is not set`},
		{second + " RATELIMIT_CHARGE=together",
			`!REDIS_PERSECOND: "true" distributes limits over two stores, which cannot decide together`},
		{"REDIS_PERSECOND_SOCKET_TYPE=unix " + second, `!REDIS_PERSECOND_SOCKET_TYPE: "unix" does not fit`},
		{"REDIS_PERSECOND_SOCKET_TYPE=tcp", "# has no effect without REDIS_PERSECOND"},
		{"REDIS_PERSECOND_TYPE=CLUSTER " + second, "REDIS_PERSECOND_TYPE=cluster"},
		{"REDIS_PERSECOND_TYPE=ring " + second, "!REDIS_PERSECOND_TYPE"},
		{"REDIS_PERSECOND_URL=r:2", "REDIS_PERSECOND_URL= # has no effect without REDIS_PERSECOND"},
		{"REDIS_PERSECOND_URL=http://r REDIS_PERSECOND=t REDIS_URL=r:1", "!REDIS_PERSECOND_URL"},
		{"REDIS_PERSECOND_AUTH=u:x " + second, "REDIS_PERSECOND_AUTH=u:x"},
		{"REDIS_PERSECOND_SENTINEL_AUTH=x " + second, `!REDIS_PERSECOND_SENTINEL_AUTH: "***" has no effect without Sentinels`},
		{"REDIS_PERSECOND_TLS=true " + second, "REDIS_PERSECOND_TLS=true"},
		{"REDIS_PERSECOND_URL=rediss://s:1 REDIS_PERSECOND=true REDIS_URL=r:1", "REDIS_PERSECOND_TLS=true"},
		{"REDIS_PERSECOND_TLS=true REDIS_PERSECOND_URL=rediss://s:1 REDIS_PERSECOND=true REDIS_URL=r:1",
			"REDIS_PERSECOND_TLS=true"},
		{"REDIS_PERSECOND_TLS=false " + second, "REDIS_PERSECOND_TLS=false"},
		{"REDIS_PERSECOND_TLS=false REDIS_PERSECOND_URL=rediss://s:1 REDIS_PERSECOND=true REDIS_URL=r:1",
			`!REDIS_PERSECOND_TLS: "false" contradicts rediss:// in REDIS_PERSECOND_URL; allowed: true, or redis:// in `},
		{"REDIS_TLS_CLIENT_CERT=c REDIS_TLS_CLIENT_KEY=k REDIS_PERSECOND_TLS=true " + second,
			"REDIS_TLS_CLIENT_CERT=c REDIS_TLS_CLIENT_KEY=k"},
		{"REDIS_PERSECOND_TIMEOUT=10s " + second, "REDIS_PERSECOND_TIMEOUT=2s # is read as 2s"},
		{"REDIS_PERSECOND_POOL_SIZE=1", "# has no meaning here: each event loop has one connection"},
		{"REDIS_PERSECOND_PIPELINE_WINDOW=1us", "# has no meaning here"},
		{"REDIS_PERSECOND_PIPELINE_LIMIT=1", "# has no meaning here"},
		{"REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM=2", "# has no meaning here"},
		{"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR=WAIT", "# has no meaning here"},
		{"REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION=1s", "# has no meaning here"},
		{"MEMCACHE_HOST_PORT=m:1", "# has no meaning here: there is no memcached"},
		{"MEMCACHE_MAX_IDLE_CONNS=2", "# has no meaning here: there is no memcached"},
		{"MEMCACHE_SRV=s", "# has no meaning here: there is no memcached"},
		{"MEMCACHE_SRV_REFRESH=1s", "# has no meaning here: there is no memcached"},
		{"MEMCACHE_TLS=true", "# has no meaning here: there is no memcached"},
		{"MEMCACHE_TLS_CLIENT_CERT=c", "# has no meaning here: there is no memcached"},
		{"MEMCACHE_TLS_CLIENT_KEY=k", "# has no meaning here: there is no memcached"},
		{"MEMCACHE_TLS_CACERT=a", "# has no meaning here: there is no memcached"},
		{"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION=true", "# has no meaning here: there is no memcached"},
		{"CACHE_KEY_PREFIX=x", "REDIS_KEY_PREFIX=x"},
		{"REDIS_POOL_SIZE=10", "# has no meaning here"},
		{"REDIS_PIPELINE_WINDOW=150us", "# has no meaning here"},
		{"REDIS_PIPELINE_LIMIT=8", "# has no meaning here"},
		{"REDIS_CLUSTER_PIPELINE_PARALLELISM=4", "# has no meaning here"},
		{"REDIS_POOL_ON_EMPTY_BEHAVIOR=WAIT", "# has no meaning here"},
		{"REDIS_POOL_ON_EMPTY_WAIT_DURATION=1s", "# has no meaning here"},
		{"REDIS_STARTUP_INITIAL_INTERVAL=1s", "# has no meaning here"},
		{"REDIS_STARTUP_MAX_INTERVAL=1s", "# has no meaning here"},
		{"REDIS_STARTUP_MAX_ELAPSED_TIME=1s", "# has no meaning here"},
		{"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true", "# has no meaning here"},
		{"LOCAL_CACHE_SIZE_IN_BYTES=1024", "# has no meaning here"},
		{"EXPIRATION_JITTER_MAX_SECONDS=300", "# has no meaning here"},
		{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true", "# has no meaning here"},

		{"NEAR_LIMIT_RATIO=0.9", "NEAR_LIMIT_RATIO=0.9"},
		{"SHADOW_MODE=TRUE", "SHADOW_MODE=true"},
		{"QUOTA_MODE=1", "QUOTA_MODE=true"},
		{"RESPONSE_DYNAMIC_METADATA=t", "RESPONSE_DYNAMIC_METADATA=true"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "RATE_LIMIT_HEADERS=envoy"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=False", "RATE_LIMIT_HEADERS=off"},
		{"LIMIT_LIMIT_HEADER=x-limit LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_LIMIT_HEADER=x-limit"},
		{"LIMIT_LIMIT_HEADER=x:y LIMIT_RESPONSE_HEADERS_ENABLED=true", "!LIMIT_LIMIT_HEADER: \"x:y\" is not the name"},
		{"LIMIT_REMAINING_HEADER=r LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_REMAINING_HEADER=r"},
		{"LIMIT_RESET_HEADER=r", "# has no effect without LIMIT_RESPONSE_HEADERS_ENABLED"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=maybe", "!LIMIT_RESPONSE_HEADERS_ENABLED"},

		{"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=:9090 PROMETHEUS_PATH=/metrics"},
		{"USE_PROMETHEUS=false PROMETHEUS_ADDR=:1", "PROMETHEUS_ADDR="},
		{"PROMETHEUS_ADDR=127.0.0.1:19001 USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:19001"},
		{"PROMETHEUS_ADDR=9090 USE_PROMETHEUS=true", `!PROMETHEUS_ADDR: "9090" is no address`},
		{"PROMETHEUS_PATH=/m USE_PROMETHEUS=true", "PROMETHEUS_PATH=/m PROMETHEUS_ADDR=:9090"},
		{"PROMETHEUS_PATH=/m", "# has no effect without USE_PROMETHEUS"},
		{"PROMETHEUS_MAPPER_YAML=/x", "# has no meaning here"},
		{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS=true", "# has no meaning here"},
		{"DISABLE_STATS=true", "# is read as USE_STATSD=false"},
		{"DISABLE_STATS=false", ""},
		{"USE_STATSD=true", "USE_STATSD=true"},
		{"USE_STATSD=false STATSD_PORT=9125", "USE_STATSD=false"},
		{"USE_STATSD=true DISABLE_STATS=true", "USE_STATSD=false # has no effect with DISABLE_STATS"},
		{"STATSD_HOST=h", "STATSD_HOST=h USE_STATSD=true"},
		{"STATSD_PORT=9125", "STATSD_PORT=9125 USE_STATSD=true"},
		{"EXTRA_TAGS=a:b", "EXTRA_TAGS=a:b USE_STATSD=false"},
		{"USE_DOG_STATSD=true", "# has no meaning here"},
		{"USE_DOG_STATSD_MOGRIFIERS=x", "# has no meaning here"},
		{"STATS_FLUSH_INTERVAL=1s", "STATS_FLUSH_INTERVAL=1s"},

		{"TRACING_ENABLED=true", "# has no meaning here: traces are not sent"},
		{"TRACING_ENABLED=false", ""},
		{"TRACING_SERVICE_NAME=x", "# has no meaning here: traces are not sent"},
		{"TRACING_SERVICE_NAMESPACE=x", "# has no meaning here"},
		{"TRACING_SERVICE_INSTANCE_ID=x", "# has no meaning here"},
		{"TRACING_EXPORTER_PROTOCOL=http", "# has no meaning here"},
		{"TRACING_SAMPLING_RATE=1.0", "# has no meaning here"},
	} {
		name, _, _ := strings.Cut(test.env, "=")
		known[name] = true
		c, err := translated(test.env)
		settings, told, _ := strings.Cut(test.want, "#")
		fault, refused := strings.CutPrefix(test.want, "!")
		switch {
		case refused:
			if err == nil || !strings.HasPrefix(err.Error(), fault) {
				t.Errorf("%s: error %v, want %s", test.env, err, fault)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", test.env, err)
			continue
		}
		for pair := range strings.FieldsSeq(settings) {
			setting, value, _ := strings.Cut(pair, "=")
			if have := setTo(c, setting); have != value {
				t.Errorf("%s: %s is %q, want %q", test.env, setting, have, value)
			}
			want := name + " is read as "
			if said := slices.ContainsFunc(notes(c), func(line string) bool {
				return strings.HasPrefix(line, want) && strings.Contains(line+",", setting+",")
			}); setting != name && value != "" && c.translated.from[setting] == name && !said {
				t.Errorf("%s: noted %q, want a line that it is read as %s", test.env, notes(c), setting)
			}
		}
		if said := strings.Join(notes(c), "\n"); told != "" && !strings.Contains(said+"\n", name+told) ||
			test.want == "" && said != "" {
			t.Errorf("%s: noted %q, want %q", test.env, said, told)
		}
	}
	page := string(testkit.Must(os.ReadFile("../../docs/ratelimit.md"))(t))
	for _, v := range variables {
		if !known[v.name] || !strings.Contains(page, "`"+v.name+"`") {
			t.Errorf("%s is not tested, or not in docs/ratelimit.md", v.name)
		}
	}
}

// notes returns the texts about variables.
func notes(c *Config) (texts []string) {
	for _, n := range c.Translations() {
		texts = append(texts, n.Text)
	}
	return texts
}

// setTo returns the value of a setting. Those of all programs are registered elsewhere.
func setTo(c *Config, setting string) string {
	return cmp.Or(c.settings.Text(setting), c.translated.read(setting))
}

// translated reads an environment of envoyproxy/ratelimit. The error is the first fault of a single setting, or
// of the store's settings together.
func translated(env string) (*Config, error) {
	var pairs []string
	for pair := range strings.FieldsSeq(env) {
		name, value, _ := strings.Cut(pair, "=")
		pairs = append(pairs, name, value)
	}
	c := &Config{Program: "ratelimit"}
	s := service.NewSettings("proxy")
	c.Register(s)
	_, err := s.Parse(nil, testkit.Env(pairs))
	if err == nil {
		err = cmp.Or(faultIf(c.UsesRedis(), c.Redis), c.perSecond.complete(c))
	}
	return c, err
}

// Without variables the ports and the answers are those of envoyproxy/ratelimit. Settings of Weir apply too, and
// links of Kubernetes to services do not.
func TestVariablesAndSettings(t *testing.T) {
	c, err := translated("RATELIMIT_CHARGE=together REDIS_PORT=tcp://10.0.0.1:6379 DECISION_PORT=9000 PORT=8000")
	if err != nil {
		t.Fatal(err)
	}
	want := []VariableTranslation{{"PORT is read as DECISION_PORT", false},
		{"REDIS_PORT is ignored: Kubernetes sets it for a service of this name", true}}
	if notes := c.Translations(); !slices.Equal(notes, want) {
		t.Errorf("noted %v, want %v", notes, want)
	}
	for setting, want := range map[string]string{"TARGET_URL": "none", "PORT": "6070", "GRPC_PORT": "8081",
		"DECISION_PORT": "9000", "RATELIMIT_CHARGE": "together", "STORE_FAILURE_MODE": "closed", "REDIS_PORT": "6379",
		"RATE_LIMIT_HEADERS": "off", "RATELIMIT_CONFIG": "/srv/runtime_data/current/config"} {
		if have := setTo(c, setting); have != want {
			t.Errorf("%s is %q, want %q", setting, have, want)
		}
	}
}

// SETTINGS_FROM says whose variables are read, whatever the program's name; a flag goes before it.
func TestSettingsFrom(t *testing.T) {
	for _, test := range []struct{ program, env, flag, port string }{
		{"proxy", "", "", "0"},
		{"ratelimit", "", "", "8080"},
		{"proxy", "ratelimit", "", "8080"},
		{"ratelimit", "weir", "", "0"},
		{"ratelimit", "auto", "", "8080"},
		{"proxy", "weir", "-settings-from=ratelimit", "8080"},
	} {
		c := &Config{Program: test.program}
		s := service.NewSettings("proxy")
		c.Register(s)
		var args []string
		if test.flag != "" {
			args = append(args, test.flag)
		}
		if _, err := s.Parse(args, testkit.Env([]string{"SETTINGS_FROM", test.env})); err != nil {
			t.Fatal(err)
		}
		if port := s.Text("DECISION_PORT"); port != test.port {
			t.Errorf("%+v: DECISION_PORT is %s", test, port)
		}
	}
}
