// Package config defines the proxy's settings: their names, meanings and allowed values. It also
// translates the environment of envoyproxy/ratelimit.
package config

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

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
	// Program is the name by which the program was started; see SETTINGS_FROM.
	Program string

	settings   *service.Settings // as given
	translated *translation      // nil: the variables are Weir's

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

	data      session.Settings // registered here; Session completes them
	preflight string
	loop      loop.Config // registered here; Loop completes it
	http2     http2Settings
	redis     redisSettings
	perSecond perSecondSettings
	postgres  postgresSettings
	remote    remote.Config // without Failure
	Server    Server
	Rules     Rules
	Templates string // REFUSAL_TEMPLATES; empty: none
	Access    AccessLog
	Adaptive  Adaptive
	Decision  DecisionPort
	RateLimit RateLimit
	XDS       XDS
	Statsd    Statsd
	Defer     DeferredRequests
}

// timeMax bounds most durations.
const timeMax = 24 * time.Hour

// Register adds the settings to s. When s has been parsed, c holds their values. The register
// methods of its parts do the same, and their complete methods check settings together.
func (c *Config) Register(s *service.Settings) {
	c.settings = s
	c.registerTranslation(s)
	d, noTarget := &c.data, s.NoEffectWhen("TARGET_URL", noTargets)
	s.Add(service.SettingList{
		{Name: "TARGET_URL", Default: "http://127.0.0.1:8081",
			Value: service.Func(&c.Targets, "http://host:port, comma separated, also with https, h2c or h2; none", ParseTargets),
			Help: "base URLs of the targets, comma separated, without path; none: forward nothing, for a master that only " +
				"decides"},
		{Name: "TARGET_BALANCE", Default: "p2c",
			Value:    service.StringerEnum(&c.Balance, upstream.P2C, upstream.RoundRobin, upstream.LeastInFlight),
			NoEffect: noTarget,
			Help:     "how requests are distributed over several targets"},
		{Name: "HOST_HEADER", Default: "preserve", Value: service.Enum(&d.PreserveHost, "preserve, target", true, false),
			NoEffect: noTarget, Help: "Host sent to the target: the client's or the target's own"},
		{Name: "UNDERSCORED_FIELDS", Default: "drop", Value: service.Enum(&d.Underscores, "drop, keep", false, true),
			Help: "what to do with request fields that have _ in their names (nginx: underscores_in_headers); those that a " +
				"target could take for connection fields or untrusted claims are always dropped"},
		{Name: "TRAILERS", Default: "pass", Value: service.Enum(&d.DropTrailers, "pass, drop", false, true),
			NoEffect: noTarget,
			Help: "whether trailers of requests and answers are passed on; clients of HTTP/1.1 get them only if they send " +
				"TE: trailers; gRPC needs them"},
	})
	registerOrigin(s, d)
	c.registerLimit(s)
	s.Add(service.SettingList{
		{Name: "RATE_LIMIT_HEADERS", Default: "both",
			Value: service.Enum(&d.Style.LimitFields, "off, legacy, standard, both, envoy",
				0, decide.XRateLimit, decide.Standard, decide.XRateLimit|decide.Standard, decide.Envoy),
			Help: "rate limit fields in answers: X-RateLimit-* (legacy), RateLimit and RateLimit-Policy (standard), " +
				"RateLimit-Limit, -Remaining and -Reset (envoy, as in envoyproxy/ratelimit)"},
		{Name: "CORS", Default: "auto", Value: service.Enum(&d.CORS, "auto, off", true, false),
			Help: "auto: refusals (429, 503) of requests with Origin carry Access-Control-Allow-Origin and expose the rate " +
				"limit fields, so that the page can read them"},
		{Name: "PREFLIGHT", Default: "apart", Value: service.StringEnum(&c.preflight, "shared, apart, exempt"),
			Help: "which limits apply to CORS preflights (OPTIONS with Origin and Access-Control-Request-Method): those of " +
				"other requests, separate ones of equal size, or none; any client can send such requests, so exempt lets clients " +
				"bypass the limits"},
	})
	c.redis.register(s, c.withoutRedis)
	c.perSecond.register(s)
	c.postgres.register(s, c.withoutPostgres)
	registerRemote(s, &c.remote)
	c.registerBounds(s)
	c.registerTimes(s)
	c.registerHTTP2(s)
	c.registerTargetProtocol(s)
	c.registerRefusal(s)
	c.Access.register(s, d)
	registerGate(s, &c.Gate)
	c.Server.register(s, d, &c.loop)
	c.Rules.register(s)
	c.Adaptive.register(s)
	c.Decision.register(s)
	c.RateLimit.register(s)
	c.XDS.register(s)
	c.Statsd.register(s)
	c.Defer.register(s)
}

// registerBounds adds the settings of sizes and numbers of messages and connections.
func (c *Config) registerBounds(s *service.Settings) {
	d, noTarget := &c.data, s.NoEffectWhen("TARGET_URL", noTargets)
	s.Add(service.SettingList{
		{Name: "KEYS_MAX", Default: "10000000", Value: service.Int(&c.KeysMax, 1, 1<<31-1),
			Help: "maximum number of keys in the simulated Redis"},
		{Name: "EVENT_LOOPS", Default: strconv.Itoa(min(runtime.GOMAXPROCS(0), 1024)),
			Value: service.Int(&c.loop.Loops, 1, 1024),
			Help: "number of event loops; default: GOMAXPROCS, which is the number of processors or the container's CPU limit " +
				"(rounded up, at least 2)"},
		{Name: "MAX_CONNECTIONS", Default: "0", Value: service.Int(&c.loop.ConnectionsMax, 0, 1<<24),
			Help: "maximum number of client connections; one client leaves an eighth for others, unless it is in " +
				"TRUSTED_PROXIES; 0: half of RLIMIT_NOFILE"},
		{Name: "TARGET_MAX_CONNECTIONS", Default: "1024", Value: service.Int(&c.TargetConnsMax, 1, 1<<20), NoEffect: noTarget,
			Help: "maximum number of connections to each target, of which one client leaves an eighth for others"},
		{Name: "TARGET_STREAM_SHARE", Default: "0.9", Value: service.Float(&c.StreamShare, 0.01, 1), NoEffect: noTarget,
			Help: "share of TARGET_MAX_CONNECTIONS that tunnels, streamed bodies and authenticated connections (NTLM, " +
				"Negotiate) may take, at least one, and of which one client leaves an eighth for others; beyond: 503"},
		{Name: "HEAD_MAX_BYTES", Default: "16KiB", Value: service.Bytes(&d.Head.HeadBytes, 1<<10, 1<<20),
			Help: "maximum size of a request's head without fields that proxies add (Via, X-Forwarded-For …); beyond: 431, or " +
				"414 for the request line"},
		{Name: "FIELDS_MAX", Default: "100", Value: service.Int(&d.Head.Fields, 1, 10000),
			Help: "maximum number of field lines of a request, likewise; beyond: 431"},
		{Name: "TARGET_HEAD_MAX_BYTES", Default: "32KiB", Value: service.Bytes(&d.ResponseHead.HeadBytes, 1<<10, 1<<20),
			Help: "maximum size of the head of a target's response, likewise; beyond: 502"},
		{Name: "TARGET_FIELDS_MAX", Default: "200", Value: service.Int(&d.ResponseHead.Fields, 1, 10000),
			Help: "maximum number of field lines of a target's response, likewise; beyond: 502"},
		{Name: "BODY_MAX_BYTES", Default: "0", Value: service.Bytes(&d.BodyBytesMax, 0, 1<<50),
			Help: "a request's body; beyond: 413; 0: any"},
		{Name: "BODY_BUFFER_BYTES", Default: "256KiB", Value: service.Bytes(&d.BufferBytesMax, 1<<10, 1<<30),
			Help: "maximum size of a body that is collected before it is passed on, in either direction; larger bodies are " +
				"streamed"},
	})
}

// registerTimes adds the settings of timeouts and ages.
func (c *Config) registerTimes(s *service.Settings) {
	d, noTarget := &c.data, s.NoEffectWhen("TARGET_URL", noTargets)
	s.Add(service.SettingList{
		{Name: "HEAD_TIMEOUT", Default: "10s", Value: service.Duration(&d.HeadTimeout, time.Millisecond, timeMax),
			Help: "timeout for reading a whole request head; then 408"},
		{Name: "BODY_TIMEOUT", Default: "15s", Value: service.Duration(&d.BodyTimeout, time.Millisecond, timeMax),
			Help: "timeout between two pieces of a request's body; then 408; a call of gRPC becomes a stream, with " +
				"STREAM_TIMEOUT"},
		{Name: "IDLE_TIMEOUT", Default: "60s", Value: service.Duration(&d.IdleTimeout, time.Millisecond, timeMax),
			Help: "how long a client connection may be idle between requests"},
		{Name: "CONNECTION_MAX_REQUESTS", Default: "10000", Value: service.Int(&d.RequestsMax, 0, 1<<31-1),
			Help: "maximum number of requests on one client connection; the last answer announces the close; 0: no limit"},
		{Name: "CONNECTION_MAX_AGE", Default: "1h", Value: service.Duration(&d.AgeMax, 0, 30*timeMax),
			Help: "maximum age of a client connection, reduced at random by up to an eighth; the next answer announces the " +
				"close; 0: no limit"},
		{Name: "WRITE_TIMEOUT", Default: "15s", Value: service.Duration(&c.loop.WriteStall, time.Millisecond, timeMax),
			Help: "how long a client may accept no byte of its answer"},
		{Name: "TARGET_CONNECT_TIMEOUT", Default: "1s", Value: service.Duration(&d.ConnectTimeout, time.Millisecond, timeMax),
			NoEffect: noTarget, Help: "timeout for connecting to a target; then 504"},
		{Name: "TARGET_WAIT_TIMEOUT", Default: "1s", Value: service.Duration(&d.WaitTimeout, 0, timeMax), NoEffect: noTarget,
			Help: "how long a request waits for a connection while all TARGET_MAX_CONNECTIONS are in use; then 503"},
		{Name: "TARGET_TIMEOUT", Default: "10s", Value: service.Duration(&d.TargetTimeout, time.Millisecond, timeMax),
			NoEffect: noTarget,
			Help: "timeout from sending a request to the head of the target's answer, and between two pieces of the answer; " +
				"then 504; an answer that takes longer in total is streamed"},
		{Name: "TARGET_IDLE_TIMEOUT", Default: "30s", Value: service.Duration(&c.TargetIdle, time.Millisecond, timeMax),
			NoEffect: noTarget, Help: "how long a connection to a target may be idle; keep it below the target's own idle timeout"},
		{Name: "TARGET_CONNECTION_MAX_AGE", Default: "5m", Value: service.Duration(&c.TargetAge, 0, 30*timeMax),
			NoEffect: noTarget,
			Help: "maximum age of a connection to a target, reduced at random by up to a quarter; an older one is not reused, " +
				"so that new instances behind one address get their share; 0: no limit"},
		{Name: "DRAIN_TIMEOUT", Default: "30s", Value: service.Duration(&c.DrainTimeout, 0, timeMax),
			Help: "how long requests in flight may take when the proxy ends"},
	})
}

// registerRefusal adds the settings of what refusals look like.
func (c *Config) registerRefusal(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "REFUSAL_STATUS", Default: "429", Value: service.Enum(&c.data.Style.Status, "429, 503", 429, 503),
			Help: "status of refusals by a limit, unless the rule sets one"},
		{Name: "REFUSAL_TEMPLATES", Value: service.String(&c.Templates),
			Help: "folder with templates for the bodies of refusals (429, and 503 of the proxy): default.html, default.json, " +
				"default.txt, and NAME.html … for rules with refusal: {template: NAME}; the client's Accept selects one; read " +
				"again at SIGHUP; empty: a page for browsers, JSON for others"},
		{Name: "REFUSAL_FIELDS",
			Value: service.Func(&c.data.Style.Fields, "Name: value, separated by |; none that the proxy sets itself",
				explained("cannot be used", refusal.ParseFields)),
			Help: "fields of refusals, unless the rule sets some"},
	})
}

// explained puts words before the errors of parse.
func explained[T any](words string, parse func(string) (T, error)) func(string) (T, error) {
	return func(text string) (T, error) {
		v, err := parse(text)
		if err != nil {
			err = fmt.Errorf("%s: %w", words, err)
		}
		return v, err
	}
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
	c.noteOrigin()
	c.noteGate()
	c.noteConnections()
	if c.EnvoyEnvironment() && !c.UsesRedis() && !c.UsesPostgres() && !c.UsesRemote() {
		c.Notes = append(c.Notes, "REDIS_URL is not set: limits are in the memory of this process, and end with it")
	}
	s := c.settings
	return errors.Join(c.completeLimit(), c.Server.complete(s, &c.data), completeGate(s, &c.Gate), c.completeHTTP2(),
		c.Rules.complete(s), c.Adaptive.complete(s), c.Decision.complete(s, len(c.Targets)), c.XDS.complete(s),
		c.Defer.complete(s, &c.redis, &c.postgres),
		faultIf(c.UsesRedis(), c.Redis), c.perSecond.complete(c), faultIf(c.UsesPostgres(), c.Postgres),
		faultIf(c.UsesRemote(), c.Remote))
}

// faultIf returns the error of a store's settings if they are used.
func faultIf[T any](used bool, settings func() (T, error)) (err error) {
	if used {
		_, err = settings()
	}
	return err
}

// RuleOptions returns the options for reading rules.
func (c *Config) RuleOptions() rule.Options {
	o := c.Rules.Options
	o.ExemptPreflights, o.Defers, o.Callbacks = c.preflight == "exempt", c.Defer.Used() && len(c.Targets) > 0,
		c.Defer.Callbacks != nil
	return o
}

// Session returns the settings of the data path.
func (c *Config) Session() session.Settings {
	d := c.data
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
		ours := one.Program == "" || one.Program == "proxy" || one.Program == peer && c.EnvoyEnvironment()
		here := c.Server.AdminPort == 0 || c.Server.HealthOnDataPort && strings.HasPrefix(path, "/actuator/health")
		if here && ours && !strings.HasPrefix(path, "/deferred/") &&
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
	l.DialPace = 2
	// A target that does not answer connects must not delay the others, nor dials of masters.
	l.DialsMax = max(256, len(c.Targets)*c.TargetConnsMax) + masterDialsMax
	l.InboundMax = inboundMax(max(c.data.Head.HeadBytes, c.data.ResponseHead.HeadBytes))
	return l
}

// inboundMax is how many bytes of a connection may be unread. A head of at most headBytes is processed
// only when it is complete: half of the bound must hold one.
func inboundMax(headBytes int) int { return 2*headBytes + 64<<10 }

// DecisionLoop returns the settings of the event loops of the decision port.
func (c *Config) DecisionLoop() loop.Config {
	l := c.Loop()
	l.InboundMax = inboundMax(c.Decision.Head.HeadBytes)
	return l
}
