package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/data/mask"
)

// A variable is a name in the environment of envoyproxy/ratelimit.
type variable struct {
	name string
	read reading
}

// A reading makes settings of the value of a variable, which is not empty.
type reading func(t *translation, value string) error

// defaultsOfPeer returns the settings of a proxy in place of envoyproxy/ratelimit whose environment is
// empty: its ports, and its behaviour where Weir's differs.
func defaultsOfPeer() map[string]string {
	return map[string]string{
		"TARGET_URL": noTargets, "RATE_LIMIT_HEADERS": "off", "RATELIMIT_CHARGE": "independent",
		"STORE_FAILURE_MODE": "closed", // an error, for which Envoy has a setting
		"DECISION_PORT":      "8080", "DECISION_BIND": "0.0.0.0", "DECISION_OPEN": "true",
		"GRPC_PORT": "8081", "GRPC_BIND": "0.0.0.0", "PORT": "6070", "BIND": "0.0.0.0",
		"RATELIMIT_CONFIG": "/srv/runtime_data/current/config",
	}
}

// variables are all names that envoyproxy/ratelimit reads. They are read in this order.
var variables = []variable{
	{"HOST", as("DECISION_BIND")},
	{"PORT", as("DECISION_PORT")},
	{"DEBUG_HOST", as("BIND")},
	{"DEBUG_PORT", as("PORT")},
	{"GRPC_HOST", as("GRPC_BIND")},
	{"GRPC_PORT", same},
	{"GRPC_UDS", func(t *translation, value string) error {
		t.put("GRPC_UDS", value)
		t.values["GRPC_PORT"] = "0"
		return nil
	}},
	{"GRPC_MAX_CONNECTION_AGE", same},
	{"GRPC_MAX_CONNECTION_AGE_GRACE", same},
	{"GRPC_SERVER_USE_TLS", serverTLS},
	{"GRPC_SERVER_TLS_CERT", when("GRPC_SERVER_USE_TLS", as("GRPC_TLS_CERT"))},
	{"GRPC_SERVER_TLS_KEY", when("GRPC_SERVER_USE_TLS", as("GRPC_TLS_KEY"))},
	{"GRPC_SERVER_TLS_CA_CERT", none("envoyproxy/ratelimit does not read it either")}, // Envoy Gateway sets it
	{"GRPC_CLIENT_TLS_CACERT", when("GRPC_SERVER_USE_TLS", as("GRPC_TLS_CLIENT_CA"))},
	{"GRPC_CLIENT_TLS_SAN", when("GRPC_SERVER_USE_TLS", as("GRPC_TLS_CLIENT_SAN"))},

	{"LOG_LEVEL", logLevel},
	{"LOG_FORMAT", func(t *translation, value string) error { t.put("LOG_FORMAT", strings.ToLower(value)); return nil }},

	{"RUNTIME_ROOT", runtimeFolder},
	{"RUNTIME_SUBDIRECTORY", runtimeFolder},
	{"RUNTIME_APPDIRECTORY", runtimeFolder},
	{"RUNTIME_IGNOREDOTFILES", none("hidden files are never read")},
	{"RUNTIME_WATCH_ROOT", none("files are watched, whether they or a symbolic link to them changes")},
	{"MERGE_DOMAIN_CONFIG", same},
	{"CONFIG_TYPE", configType},
	{"CONFIG_GRPC_XDS_SERVER_URL", same},
	{"CONFIG_GRPC_XDS_NODE_ID", same},
	{"CONFIG_GRPC_XDS_NODE_METADATA", same},
	{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", same},
	{"CONFIG_GRPC_XDS_SERVER_USE_TLS", same},
	{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", when("CONFIG_GRPC_XDS_SERVER_USE_TLS", same)},
	{"CONFIG_GRPC_XDS_SERVER_TLS_SAN", when("CONFIG_GRPC_XDS_SERVER_USE_TLS", same)},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", when("CONFIG_GRPC_XDS_SERVER_USE_TLS", same)},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", when("CONFIG_GRPC_XDS_SERVER_USE_TLS", same)},
	{"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", none("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL is for all failures")},
	{"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", same},
	{"XDS_CLIENT_BACKOFF_MAX_INTERVAL", same},
	{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", none("the wait doubles, and up to half of it is random")},
	{"XDS_CLIENT_BACKOFF_JITTER", none("the wait doubles, and up to half of it is random")},
	{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", same},
	{"FORCE_START_WITHOUT_INITIAL_CONFIG", same},
	{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", same},

	{"BACKEND_TYPE", backend},
	{"REDIS_SOCKET_TYPE", socketType("REDIS_URL")},
	{"REDIS_TYPE", topology("REDIS_MODE")},
	{"REDIS_URL", redisURL},
	{"REDIS_AUTH", credentials("REDIS_USERNAME", "REDIS_PASSWORD")},
	{"REDIS_SENTINEL_AUTH", sentinelAuth},
	{"REDIS_TLS", redisTLS},
	{"REDIS_PERSECOND", same},
	{"REDIS_PERSECOND_SOCKET_TYPE", when("REDIS_PERSECOND", socketType("REDIS_PERSECOND_URL"))},
	{"REDIS_PERSECOND_TYPE", when("REDIS_PERSECOND", topology("REDIS_PERSECOND_TYPE"))},
	{"REDIS_PERSECOND_URL", when("REDIS_PERSECOND", perSecondURL)},
	{"REDIS_PERSECOND_AUTH", when("REDIS_PERSECOND", same)},
	{"REDIS_PERSECOND_SENTINEL_AUTH", when("REDIS_PERSECOND", same)},
	{"REDIS_PERSECOND_TLS", when("REDIS_PERSECOND", same)},
	{"REDIS_PERSECOND_TIMEOUT", when("REDIS_PERSECOND", redisTimeout)},
	{"REDIS_TLS_CACERT", when("REDIS_TLS", as("REDIS_TLS_CA_FILE"), "REDIS_PERSECOND_TLS")},
	{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", when("REDIS_TLS", same, "REDIS_PERSECOND_TLS")},
	{"REDIS_TLS_CLIENT_CERT", when("REDIS_TLS", same, "REDIS_PERSECOND_TLS")},
	{"REDIS_TLS_CLIENT_KEY", when("REDIS_TLS", same, "REDIS_PERSECOND_TLS")},
	{"REDIS_TIMEOUT", redisTimeout},
	{"REDIS_PERSECOND_POOL_SIZE", none(pool)},
	{"REDIS_PERSECOND_PIPELINE_WINDOW", none(combined)},
	{"REDIS_PERSECOND_PIPELINE_LIMIT", none(combined)},
	{"REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", none(parallel)},
	{"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", none(noPool)},
	{"REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION", none(noPool)},
	{"MEMCACHE_HOST_PORT", none(memcached)},
	{"MEMCACHE_MAX_IDLE_CONNS", none(memcached)},
	{"MEMCACHE_SRV", none(memcached)},
	{"MEMCACHE_SRV_REFRESH", none(memcached)},
	{"MEMCACHE_TLS", none(memcached)},
	{"MEMCACHE_TLS_CLIENT_CERT", none(memcached)},
	{"MEMCACHE_TLS_CLIENT_KEY", none(memcached)},
	{"MEMCACHE_TLS_CACERT", none(memcached)},
	{"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", none(memcached)},
	{"CACHE_KEY_PREFIX", as("REDIS_KEY_PREFIX")},
	{"REDIS_POOL_SIZE", none(pool)},
	{"REDIS_PIPELINE_WINDOW", none(combined)},
	{"REDIS_PIPELINE_LIMIT", none(combined)},
	{"REDIS_CLUSTER_PIPELINE_PARALLELISM", none(parallel)},
	{"REDIS_POOL_ON_EMPTY_BEHAVIOR", none(noPool)},
	{"REDIS_POOL_ON_EMPTY_WAIT_DURATION", none(noPool)},
	{"REDIS_STARTUP_INITIAL_INTERVAL", none(startup)},
	{"REDIS_STARTUP_MAX_INTERVAL", none(startup)},
	{"REDIS_STARTUP_MAX_ELAPSED_TIME", none(startup)},
	{"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", none("without Redis the proxy is healthy, and STORE_FAILURE_MODE applies")},
	{"LOCAL_CACHE_SIZE_IN_BYTES", none("refusals are remembered without it")},
	{"EXPIRATION_JITTER_MAX_SECONDS", none("keys expire when their limits are as new")},
	{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", none("a refused request is not counted")},

	{"NEAR_LIMIT_RATIO", same},
	{"SHADOW_MODE", same},
	{"QUOTA_MODE", same},
	{"RESPONSE_DYNAMIC_METADATA", same},
	{"LIMIT_RESPONSE_HEADERS_ENABLED", headers},
	{"LIMIT_LIMIT_HEADER", when("LIMIT_RESPONSE_HEADERS_ENABLED", same)},
	{"LIMIT_REMAINING_HEADER", when("LIMIT_RESPONSE_HEADERS_ENABLED", same)},
	{"LIMIT_RESET_HEADER", when("LIMIT_RESPONSE_HEADERS_ENABLED", same)},

	{"USE_PROMETHEUS", prometheus},
	{"PROMETHEUS_ADDR", when("USE_PROMETHEUS", same)},
	{"PROMETHEUS_PATH", when("USE_PROMETHEUS", same)},
	{"PROMETHEUS_MAPPER_YAML", none("metrics have the names and labels of the mapping by default")},
	{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", none("response times are in seconds")},
	{"DISABLE_STATS", func(t *translation, _ string) error {
		if t.on("DISABLE_STATS") {
			t.readAs("USE_STATSD=false: " + metrics)
		}
		return nil
	}},
	{"USE_STATSD", statsd(same)},
	{"STATSD_HOST", statsd(byDefault)},
	{"STATSD_PORT", statsd(byDefault)},
	{"EXTRA_TAGS", statsd(same)},
	{"STATS_FLUSH_INTERVAL", statsd(same)},
	{"USE_DOG_STATSD", none(metrics)},
	{"USE_DOG_STATSD_MOGRIFIERS", none(metrics)},

	{"TRACING_ENABLED", none(tracing)},
	{"TRACING_SERVICE_NAME", none(tracing)},
	{"TRACING_SERVICE_NAMESPACE", none(tracing)},
	{"TRACING_SERVICE_INSTANCE_ID", none(tracing)},
	{"TRACING_EXPORTER_PROTOCOL", none(tracing)},
	{"TRACING_SAMPLING_RATE", none(tracing)},
}

// Why some variables have no meaning.
const (
	startup = "the proxy starts without Redis, and keeps trying to connect"
	metrics = "metrics are read at /metrics of DEBUG_PORT"
	tracing = "traces are not sent"

	pool      = "each event loop has one connection, on which asks are combined"
	combined  = "asks are combined without waiting"
	parallel  = "nodes of a Cluster are always asked at the same time"
	noPool    = "there is no pool to wait for"
	memcached = "there is no memcached"
)

// same reads a setting that envoyproxy/ratelimit has as well.
func same(t *translation, value string) error { t.put(t.variable, value); return nil }

// as reads a setting that has another name here.
func as(setting string) reading {
	return func(t *translation, value string) error { t.put(setting, value); return nil }
}

// none reads a variable that has no meaning here. There is no note if it is false.
func none(why string) reading {
	return func(t *translation, value string) error {
		if off, err := strconv.ParseBool(value); err != nil || off {
			t.ignore("has no meaning here: " + why)
		}
		return nil
	}
}

// when reads a variable that another one must turn on, or one of more.
func when(variable string, read reading, more ...string) reading {
	return func(t *translation, value string) error {
		if !t.on(variable) && !slices.ContainsFunc(more, t.on) {
			t.ignore("has no effect without " + variable)
			return nil
		}
		return read(t, value)
	}
}

func serverTLS(t *translation, value string) error {
	switch use, err := strconv.ParseBool(value); {
	case err != nil:
		return t.wrong(value, "true, false", "is neither true nor false")
	case use && (t.env("GRPC_SERVER_TLS_CERT") == "" || t.env("GRPC_SERVER_TLS_KEY") == ""):
		return t.wrong(value, "with GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY", "has no certificate")
	}
	return nil
}

// logLevel reads the levels of the logger of envoyproxy/ratelimit.
func logLevel(t *translation, value string) error {
	level := strings.ToLower(value)
	switch level {
	case "warning":
		level = "warn"
	case "trace":
		level = "debug"
	case "fatal", "panic":
		level = "error"
	}
	t.put("LOG_LEVEL", level)
	return nil
}

// runtimeFolder reads the three variables that name the folder of the configuration.
func runtimeFolder(t *translation, _ string) error {
	if t.env("CONFIG_TYPE") == fromXDS {
		t.ignore("has no effect with CONFIG_TYPE=" + fromXDS)
		return nil
	}
	part := func(name, otherwise string) string {
		if value := t.env(name); value != "" {
			return value
		}
		return otherwise
	}
	t.put("RATELIMIT_CONFIG", filepath.Join(part("RUNTIME_ROOT", "/srv/runtime_data/current"),
		part("RUNTIME_SUBDIRECTORY", ""), part("RUNTIME_APPDIRECTORY", "config")))
	return nil
}

// fromXDS is the CONFIG_TYPE of limits from an xDS server.
const fromXDS = "GRPC_XDS_SOTW"

func configType(t *translation, value string) error {
	t.put("CONFIG_TYPE", value)
	if value == fromXDS {
		delete(t.values, "RATELIMIT_CONFIG")
	}
	return nil
}

func backend(t *translation, value string) error {
	if value != "redis" {
		return t.wrong(value, "redis", "is a store that Weir does not have")
	}
	return nil
}

// socketType checks that the type of a socket fits the address in another variable.
func socketType(variable string) reading {
	return func(t *translation, value string) error {
		if value != "tcp" && value != "unix" {
			return t.wrong(value, "tcp, unix", "is unknown")
		}
		if path := strings.HasPrefix(t.env(variable), "/"); path != (value == "unix") && t.env(variable) != "" {
			return t.wrong(value, "tcp with host:port, unix with a path", "does not fit %s=%s", variable,
				mask.Value(t.env(variable)))
		}
		return nil
	}
}

// prometheus reads whether there is a port for metrics.
func prometheus(t *translation, _ string) error {
	if t.on("USE_PROMETHEUS") && t.env("PROMETHEUS_ADDR") == "" {
		t.put("PROMETHEUS_ADDR", ":9090")
	}
	return nil
}

// statsd reads a variable about statsd, unless statistics are off.
func statsd(read reading) reading {
	return func(t *translation, value string) error {
		if t.on("DISABLE_STATS") {
			t.ignore("has no effect with DISABLE_STATS")
			return nil
		}
		return read(t, value)
	}
}

// byDefault reads the address of statsd. envoyproxy/ratelimit uses statsd unless USE_STATSD is false; Weir does by
// default only if it has an address.
func byDefault(t *translation, value string) error {
	if t.env("USE_STATSD") == "" {
		t.put("USE_STATSD", "true")
	}
	return same(t, value)
}

// headers reads whether clients get fields about their limits.
func headers(t *translation, value string) error {
	switch wanted, err := strconv.ParseBool(value); {
	case err != nil:
		return t.wrong(value, "true, false", "is neither true nor false")
	case wanted:
		t.put("RATE_LIMIT_HEADERS", "envoy")
	}
	return nil
}
