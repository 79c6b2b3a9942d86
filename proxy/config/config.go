// Package config has the proxy's settings: their names, meanings and allowed values.
package config

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/data/strict"
	"weir/internal/net/loop"
	"weir/internal/program/service"
	"weir/proxy/http/session"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/pattern"
	"weir/proxy/rules/refusal"
	"weir/proxy/rules/rule"
	"weir/proxy/store/remote"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/upstream"
)

// Config has the settings as given.
type Config struct {
	Targets []Target
	Balance upstream.Balance
	Limit   limit.Config

	// Notes lists settings that have no effect.
	Notes []string

	KeysMax int

	TargetConnsMax int
	StreamShare    float64
	TargetIdle     time.Duration
	TargetAge      time.Duration // of a connection to a target; 0: any
	DrainTimeout   time.Duration
	Gate           gates.Settings

	data        session.Settings // registered here; Session completes them
	preflight   string
	limit       int
	limitGiven  func() bool // reports whether a setting of the global limit was given
	capacity    int
	headBytes   int64
	answerBytes int64
	loop        loop.Config // registered here; Loop completes it
	redis       redisSettings
	idleRedis   func() // notes the Redis settings that have no effect without REDIS_HOST
	postgres    postgresSettings
	remote      remote.Config // without Failure
	Edge        Edge
	Rules       Rules
	Templates   string // REFUSAL_TEMPLATES; empty: none
	Access      Access
	Adaptive    Adaptive
	Decision    Decision
	RateLimit   RateLimit
	Defer       Defer
}

// timeMax bounds most durations.
const timeMax = 24 * time.Hour

// Register adds the settings to s. When s has been parsed, c holds their values. The register
// methods of its parts do the same, and their complete methods check settings together.
func (c *Config) Register(s *service.Settings) {
	d := &c.data
	s.Func("TARGET_URL", "http://127.0.0.1:8081",
		"base URLs of the targets, comma separated, without path; none: forward nothing, for a master that only decides",
		"http://host:port or https://host:port, comma separated; none", parsed(&c.Targets, ParseTargets))
	s.Choice("TARGET_BALANCE", "p2c", "how requests are distributed over several targets",
		service.Among(&c.Balance, upstream.P2C, upstream.RoundRobin, upstream.LeastInFlight))
	s.Word("HOST_HEADER", "preserve", []string{"preserve", "target"},
		"Host sent to the target: the client's or the target's own", is(&d.PreserveHost, "preserve"))
	s.Word("UNDERSCORED_FIELDS", "drop", []string{"drop", "keep"},
		"what to do with request fields that have _ in their names (nginx: underscores_in_headers); those that a target "+
			"could take for connection fields or untrusted claims are always dropped", is(&d.Underscores, "keep"))
	registerOrigin(s, d)
	c.registerLimit(s)
	s.Word("RATE_LIMIT_HEADERS", "both", []string{"off", "legacy", "standard", "both", "envoy"},
		"rate limit fields in answers: X-RateLimit-* (legacy), RateLimit and RateLimit-Policy (standard), "+
			"RateLimit-Limit, -Remaining and -Reset (envoy, as in envoyproxy/ratelimit)",
		func(word string) error { d.Style.Families = families[word]; return nil })
	s.Word("CORS", "auto", []string{"auto", "off"},
		"auto: refusals (429, 503) of requests with Origin carry Access-Control-Allow-Origin and expose the rate limit "+
			"fields, so that the page can read them", is(&d.CORS, "auto"))
	s.Enum(&c.preflight, "PREFLIGHT", "apart", []string{"shared", "apart", "exempt"},
		"which limits apply to CORS preflights (OPTIONS with Origin and Access-Control-Request-Method): those of other "+
			"requests, separate ones of equal size, or none; "+
			"any client can send such requests, so exempt lets clients bypass the limits")
	c.redis.register(s)
	c.postgres.register(s)
	registerRemote(s, &c.remote)
	c.registerBounds(s)
	c.registerRefusal(s)
	c.Access.register(s, d)
	registerGate(s, &c.Gate)
	c.Edge.register(s, d, &c.loop)
	c.Rules.register(s)
	c.Adaptive.register(s)
	c.Decision.register(s)
	c.RateLimit.register(s)
	c.Defer.register(s)
	c.idle(s)
}

// registerBounds adds the settings of sizes, numbers and times of messages and connections.
func (c *Config) registerBounds(s *service.Settings) {
	d := &c.data
	s.Int(&c.KeysMax, "KEYS_MAX", 10_000_000, 1, 1<<31-1, "maximum number of keys in the simulated Redis")
	s.Int(&c.loop.Loops, "EVENT_LOOPS", runtime.GOMAXPROCS(0), 1, 1024,
		"number of event loops; default: GOMAXPROCS, which is the number of processors or the container's CPU limit "+
			"(rounded up, at least 2)")
	s.Int(&c.loop.ConnectionsMax, "MAX_CONNECTIONS", 0, 0, 1<<24,
		"maximum number of client connections; one client leaves an eighth for others, unless it is in TRUSTED_PROXIES; "+
			"0: half of RLIMIT_NOFILE")
	s.Int(&c.TargetConnsMax, "TARGET_MAX_CONNECTIONS", 1024, 1, 1<<20,
		"maximum number of connections to each target, of which one client leaves an eighth for others")
	s.Float(&c.StreamShare, "TARGET_STREAM_SHARE", 0.9, 0.01, 1,
		"share of TARGET_MAX_CONNECTIONS that tunnels, streamed bodies and authenticated connections (NTLM, Negotiate) "+
			"may take, at least one, and of which one client leaves an eighth for others; beyond: 503")
	s.Bytes(&c.headBytes, "HEAD_MAX_BYTES", 16<<10, 1<<10, 1<<20,
		"maximum size of a request's head without fields that proxies add (Via, X-Forwarded-For …); beyond: 431, or 414 "+
			"for the request line")
	s.Int(&d.Head.Fields, "FIELDS_MAX", 100, 1, 10000, "maximum number of field lines of a request, likewise; beyond: 431")
	s.Bytes(&c.answerBytes, "TARGET_HEAD_MAX_BYTES", 32<<10, 1<<10, 1<<20,
		"maximum size of the head of a target's response, likewise; beyond: 502")
	s.Int(&d.ResponseHead.Fields, "TARGET_FIELDS_MAX", 200, 1, 10000,
		"maximum number of field lines of a target's response, likewise; beyond: 502")
	s.Bytes(&d.BodyBytesMax, "BODY_MAX_BYTES", 0, 0, 1<<50, "a request's body; beyond: 413; 0: any")
	s.Bytes(&d.BufferBytesMax, "BODY_BUFFER_BYTES", 256<<10, 1<<10, 1<<30,
		"maximum size of a body that is collected before it is passed on, in either direction; larger bodies are streamed")
	s.Duration(&d.HeadTimeout, "HEAD_TIMEOUT", 10*time.Second, time.Millisecond, timeMax,
		"timeout for reading a whole request head; then 408")
	s.Duration(&d.BodyTimeout, "BODY_TIMEOUT", 15*time.Second, time.Millisecond, timeMax,
		"timeout between two pieces of a request's body; then 408")
	s.Duration(&d.IdleTimeout, "IDLE_TIMEOUT", 60*time.Second, time.Millisecond, timeMax,
		"how long a client connection may be idle between requests")
	s.Int(&d.RequestsMax, "CONNECTION_MAX_REQUESTS", 10_000, 0, 1<<31-1,
		"maximum number of requests on one client connection; the last answer announces the close; 0: no limit")
	s.Duration(&d.AgeMax, "CONNECTION_MAX_AGE", time.Hour, 0, 30*timeMax,
		"maximum age of a client connection, reduced at random by up to an eighth; the next answer announces "+
			"the close; 0: no limit")
	s.Duration(&c.loop.WriteStall, "WRITE_TIMEOUT", 15*time.Second, time.Millisecond, timeMax,
		"how long a client may accept no byte of its answer")
	s.Duration(&d.ConnectTimeout, "TARGET_CONNECT_TIMEOUT", time.Second, time.Millisecond, timeMax,
		"timeout for connecting to a target; then 504")
	s.Duration(&d.WaitTimeout, "TARGET_WAIT_TIMEOUT", time.Second, 0, timeMax,
		"how long a request waits for a connection while all TARGET_MAX_CONNECTIONS are in use; then 503")
	s.Duration(&d.TargetTimeout, "TARGET_TIMEOUT", 10*time.Second, time.Millisecond, timeMax,
		"timeout from sending a request to the head of the target's answer, and between two pieces of the answer; then "+
			"504; an answer that takes longer in total is streamed")
	s.Duration(&c.TargetIdle, "TARGET_IDLE_TIMEOUT", 30*time.Second, time.Millisecond, timeMax,
		"how long a connection to a target may be idle; keep it below the target's own idle timeout")
	s.Duration(&c.TargetAge, "TARGET_CONNECTION_MAX_AGE", 5*time.Minute, 0, 30*timeMax,
		"maximum age of a connection to a target, reduced at random by up to a quarter; an older one is not reused, so "+
			"that new instances behind one address get their share; 0: no limit")
	s.Duration(&c.DrainTimeout, "DRAIN_TIMEOUT", 30*time.Second, 0, timeMax,
		"how long requests in flight may take when the proxy ends")
}

// registerRefusal adds the settings of what refusals look like.
func (c *Config) registerRefusal(s *service.Settings) {
	s.Word("REFUSAL_STATUS", "429", []string{"429", "503"}, "status of refusals by a limit, unless the rule sets one",
		parsed(&c.data.Style.Status, strconv.Atoi))
	s.String(&c.Templates, "REFUSAL_TEMPLATES", "",
		"folder with templates for the bodies of refusals (429, and 503 of the proxy): default.html, default.json, "+
			"default.txt, and NAME.html … for rules with refusal: {template: NAME}; "+
			"the client's Accept selects one; read again at SIGHUP; empty: a page for browsers, JSON for others")
	s.Func("REFUSAL_FIELDS", "", "fields of refusals, unless the rule sets some",
		"Name: value, separated by |; none that the proxy sets itself",
		problem("cannot be used", parsed(&c.data.Style.Fields, refusal.ParseFields)))
}

// is sets p to whether the setting is the word.
func is(p *bool, word string) func(string) error {
	return func(text string) error { *p = text == word; return nil }
}

// parsed sets p to what parse makes of the setting.
func parsed[T any](p *T, parse func(string) (T, error)) func(string) error {
	return func(text string) (err error) { *p, err = parse(text); return err }
}

// problem puts words before the errors of set.
func problem(words string, set func(string) error) func(string) error {
	return func(text string) error {
		if err := set(text); err != nil {
			return fmt.Errorf("%s: %w", words, err)
		}
		return nil
	}
}

// idle notes the settings that have no effect because of another.
func (c *Config) idle(s *service.Settings) {
	s.NoEffect("GATE", "off", "SLO_P95", "GATE_WAIT", "GATE_WAIT_MAX", "GATE_MIN", "GATE_MAX")
	c.idleRedis = func() {
		s.NoEffect("REDIS_HOST", "", "REDIS_PORT", "REDIS_USERNAME", "REDIS_PASSWORD", "REDIS_DB", "REDIS_MODE",
			"REDIS_SENTINEL_MASTER", "REDIS_SENTINEL_USERNAME",
			"REDIS_SENTINEL_PASSWORD", "REDIS_TLS", "REDIS_TLS_CA_FILE", "REDIS_TLS_SERVER_NAME", "REDIS_KEY_PREFIX")
	}
	s.NoEffect("REDIS_HOST", "", "REDIS_TIMEOUT")
	s.NoEffect("POSTGRES_URL", "", "POSTGRES_TIMEOUT", "POSTGRES_CONNECTIONS", "POSTGRES_KEY_PREFIX", "POSTGRES_DURABLE")
	s.NoEffect("ADMIN_PORT", "0", "ADMIN_BIND", "ADMIN_TLS", "HEALTH_ON_DATA_PORT")
	s.NoEffect("TARGET_HEALTH_PATH", "", "TARGET_HEALTH_INTERVAL")
	s.NoEffect("TARGET_URL", noTargets, "TARGET_BALANCE", "HOST_HEADER", "TARGET_MAX_CONNECTIONS",
		"TARGET_STREAM_SHARE", "TARGET_CONNECT_TIMEOUT", "TARGET_WAIT_TIMEOUT",
		"TARGET_TIMEOUT", "TARGET_IDLE_TIMEOUT", "TARGET_CONNECTION_MAX_AGE", "TARGET_CA_FILE", "TARGET_TLS_SERVER_NAME",
		"TARGET_HEALTH_PATH", "TARGET_DNS_INTERVAL",
		"GATE", "SLO_P95", "GATE_WAIT", "GATE_WAIT_MAX", "GATE_MIN", "GATE_MAX", "DEFER_URL")
	s.NoEffect("ADAPTIVE_MODE", "false", "ADVISOR_URL", "ADVISOR_TOKEN", "ADAPTIVE_UPDATE_INTERVAL",
		"ADAPTIVE_TIMEOUT", "LIMIT_MIN_RPS", "LIMIT_MAX_RPS",
		"LIMIT_MAX_STEP", "ALGORITHM_MIN_DWELL", "ADAPTIVE_STALE_AFTER", "ADAPTIVE_TIME_SCALE")
}

// validPort reports whether text is a port number from 1 to 65535.
func validPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// Complete checks the settings together. The error joins a *service.SettingError for each
// fault.
func (c *Config) Complete() error {
	for _, note := range c.Rules.Exempt.Notes() {
		c.Notes = append(c.Notes, "EXEMPT: "+note)
	}
	err := errors.Join(c.completeLimit(), c.Edge.complete(&c.data), completeGate(&c.Gate), c.Rules.complete(),
		c.Adaptive.complete(), c.Decision.complete(len(c.Targets)), c.Defer.complete(&c.redis, &c.postgres),
		faultIf(c.UsesRedis(), c.Redis), faultIf(c.UsesPostgres(), c.Postgres), faultIf(c.UsesRemote(), c.Remote))
	if !c.Defer.inRedis {
		c.idleRedis()
	}
	c.noteOrigin()
	c.noteGate()
	c.noteConnections()
	c.notePostgres()
	return err
}

// faultIf returns the error of a store's settings if they are used.
func faultIf[T any](used bool, settings func() (T, error)) (err error) {
	if used {
		_, err = settings()
	}
	return err
}

// completeLimit makes the global limit from its settings.
func (c *Config) completeLimit() error {
	c.Limit.Limit, c.Limit.Capacity = int64(c.limit), int64(c.capacity)
	faults, _ := errors.AsType[strict.Faults](c.Limit.Validate())
	all := []error{c.stray(c.Limit.Algorithm)}
	for _, f := range faults {
		for _, one := range c.limitSettings() {
			if one.field == f.Path {
				all = append(all, &service.SettingError{Name: one.name, Value: one.value, Problem: f.Message})
			}
		}
	}
	return errors.Join(all...)
}

// RuleOptions returns the options for reading rules.
func (c *Config) RuleOptions() rule.Options {
	o := c.Rules.Options
	o.ExemptPreflights, o.Defers, o.Callbacks = c.preflight == "exempt", c.Defer.Used() && len(c.Targets) > 0,
		c.Defer.Callbacks != nil
	return o
}

// families maps the words of RATE_LIMIT_HEADERS to families of fields.
var families = map[string]decide.Families{"both": decide.Legacy | decide.Standard, "legacy": decide.Legacy,
	"standard": decide.Standard, "envoy": decide.Envoy}

// Session returns the settings of the data path.
func (c *Config) Session() session.Settings {
	d := c.data
	d.Head.HeadBytes, d.ResponseHead.HeadBytes = int(c.headBytes), int(c.answerBytes)
	d.OwnBytesMax = service.BodyBytesMax
	d.PreflightsApart = c.preflight == "apart"
	d.OwnPaths, d.NoTargets = c.ownPaths(), len(c.Targets) == 0
	if c.Defer.Used() {
		d.DeferPath, d.DeferBodyMax, d.Callbacks = c.Defer.Path, c.Defer.BodyMax, c.Defer.Callbacks
	}
	return d
}

// ownPaths returns the paths of the own endpoints on the data port. Those of deferred requests have
// a setting of their own.
func (c *Config) ownPaths() *pattern.Paths {
	var all []string
	for _, one := range service.OwnEndpoints() {
		_, path, _ := strings.Cut(one.Pattern, " ")
		here := c.Edge.AdminPort == 0 || c.Edge.HealthHere && strings.HasPrefix(path, "/actuator/health")
		if here && (one.Program == "proxy" || one.Program == "") && !strings.HasPrefix(path, "/deferred/") &&
			!slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return pattern.NewPaths(all)
}

// outboundMax is how much of a stream may wait unsent before its sender is paused. With
// data on its way through the loop that is less than half a megabyte per direction.
const outboundMax = 128 << 10

// masterDialsMax is the number of dials for those of masters.
const masterDialsMax = 64

// Loop returns the settings of the event loops.
func (c *Config) Loop() loop.Config {
	l := c.loop
	l.HandshakeTimeout, l.OutboundMax = c.data.HeadTimeout, outboundMax
	// A target that does not answer connects must not delay the others, nor dials of masters.
	l.DialsMax = max(256, len(c.Targets)*c.TargetConnsMax) + masterDialsMax
	l.InboundMax = inboundMax(max(c.headBytes, c.answerBytes))
	return l
}

// inboundMax is how many bytes of a connection may be unread. A head of at most headBytes is processed
// only when it is complete: half of the bound must hold one.
func inboundMax(headBytes int64) int { return 2*int(headBytes) + 64<<10 }

// DecisionLoop returns the settings of the event loops of the decision port.
func (c *Config) DecisionLoop() loop.Config {
	l := c.Loop()
	l.InboundMax = inboundMax(c.Decision.headBytes)
	return l
}
