package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"time"

	"weir/internal/net/admit"
	"weir/internal/net/loop"
	"weir/internal/program/certs"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/target/model"
)

// Bounds of the requests to own endpoints that are answered at the same time, and that wait;
// beyond: 503.
const (
	poolWorkers = 2
	poolWaiting = 64
)

// A Server is a running target.
//
// Safe for concurrent use: the fields are set before the first connection.
type Server struct {
	env        *service.Env
	cfg        Config
	group      *loop.Group
	listener   *loop.Listener
	shards     []*shard
	station    *station
	histograms *histograms
	pool       *service.HandlerPool
	changing   sync.Mutex // held from reading the model's behaviour until its change
}

// Run serves until ctx ends, and then drains.
func Run(ctx context.Context, e *service.Env, cfg Config) error {
	s, err := Start(e, cfg)
	if err != nil {
		return err
	}
	<-ctx.Done()
	s.Drain()
	return nil
}

// Start starts to serve at e.Addr. If cfg.Model is invalid, the error is a strict.Faults.
func Start(e *service.Env, cfg Config) (*Server, error) {
	station, err := newStation(time.Now(), cfg.Model, cmp.Or(cfg.Seed, rand.Uint64()))
	if err != nil {
		return nil, fmt.Errorf("set up the model: %w", err)
	}
	secure, err := cfg.secure()
	if err != nil {
		return nil, err
	}
	s := &Server{env: e, cfg: cfg, station: station}
	log := e.Logger("Target")
	s.group, err = loop.Start(loop.Config{
		Loops:          cfg.Loops,
		ConnectionsMax: int(admit.DescriptorsFree()), // the target dials no connections, so all descriptors are for clients
		Panicked: func(value any, stack []byte) {
			log.Error("Panic while serving", "value", value, "stack", string(stack))
		},
	})
	if err != nil {
		return nil, err
	}
	s.histograms = newHistograms(e.Metrics, len(s.group.Loops()))
	for _, l := range s.group.Loops() {
		s.shards = append(s.shards, newShard(s, l))
	}
	s.registerMetrics()
	s.pool = service.NewHandlerPool(s.endpoints(e), poolWorkers, poolWaiting)
	ln, err := net.Listen("tcp", e.Addr)
	if err != nil {
		s.group.Stop()
		s.pool.Close()
		return nil, err
	}
	s.listener = s.group.Serve(ln, secure, s.accept)
	e.Health.SetReady(true)
	return s, nil
}

// Addr returns the address served at.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Drain stops accepting connections, closes idle ones, waits until the requests in progress are
// answered, cuts those that take longer than the DrainTimeout, and ends the Server.
func (s *Server) Drain() {
	s.env.Health.SetReady(false)
	s.listener.Close() // afterwards every accepted connection has a session, which drain finds
	for _, r := range s.shards {
		r.loop.Post(r.drain)
	}
	if cut := s.group.AwaitEmpty(context.Background(), s.cfg.DrainTimeout); cut > 0 {
		s.env.Logger("Target").Warn("Requests cut: not answered in time", "timeout", s.cfg.DrainTimeout, "count", cut)
	}
	s.group.Stop()
	s.pool.Close()
}

func (s *Server) accept(now time.Time, lc *loop.Conn) loop.Handler {
	return newConn(now, s.shards[lc.Loop().Index()], lc)
}

func (s *Server) registerMetrics() {
	set := s.env.Metrics
	set.Gauge("target_workers_busy", "Requests being served.", func() float64 { busy, _ := s.station.load(); return busy })
	set.Gauge("target_queue_length", "Requests waiting for a worker.",
		func() float64 { _, waiting := s.station.load(); return waiting })
	protocols := [...]string{"http1", "h2c"}
	if s.cfg.CertFile != "" {
		protocols[1] = "h2"
	}
	for i, protocol := range protocols {
		set.Counter("target_requests_by_protocol_total"+metric.Labels("protocol", protocol), "Answered requests.",
			func() (n uint64) {
				for _, r := range s.shards {
					n += r.meter.protocols[i].Load()
				}
				return n
			})
	}
	var waits []*metric.Histogram
	for _, r := range s.shards {
		waits = append(waits, r.waits)
	}
	set.Histogram("target_queue_wait_seconds",
		"Time that requests waited for a worker, or until they were given up. Those refused at once, and all while the "+
			"service has no limits, are not counted.", waits...)
}

// A Config configures the target.
type Config struct {
	Model        model.Config  // initial behaviour of the service
	Loops        int           // event loops; 0: one per processor
	DrainTimeout time.Duration // how long requests in progress may take when the program ends; longer ones are cut
	Seed         uint64        // of the model's random numbers; 0: a new one at every start

	CertFile, KeyFile string // of the certificate to serve with; empty: no TLS
}

// secure returns the configuration of TLS, or nil without a certificate.
func (c *Config) secure() (*tls.Config, error) {
	if c.CertFile == "" && c.KeyFile == "" {
		return nil, nil
	}
	pair, err := certs.Load(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, &service.SettingError{Name: "TLS_CERT", Value: c.CertFile, Problem: "cannot be used: " + err.Error(),
			Allowed: "a PEM certificate and, in TLS_KEY, its key"}
	}
	return pair.HTTP2(), nil
}

// Default returns the Config of a program without settings.
func Default() Config {
	return Config{Model: model.Default(), DrainTimeout: 30 * time.Second}
}

// Register registers the settings of the target; c receives them.
func (c *Config) Register(s *service.Settings) {
	*c = Default()
	m := &c.Model
	s.Add(service.SettingList{
		{Name: "TARGET_DELAY", Default: m.Delay.String(), Value: service.Duration(&m.Delay, 0, model.DelayMax),
			Help: "mean service time of /api/test"},
		{Name: "TARGET_DELAY_DIST", Default: m.Dist.String(),
			Value: service.StringerEnum(&m.Dist, model.Constant, model.Exponential, model.Lognormal),
			Help:  "distribution of the service time"},
		{Name: "TARGET_WORKERS", Default: strconv.Itoa(m.Workers), Value: service.Int(&m.Workers, 0, model.WorkersMax),
			Help: "requests served at the same time, 0 for any number; capacity is workers / delay"},
		{Name: "TARGET_QUEUE", Default: strconv.Itoa(m.Queue), Value: service.Int(&m.Queue, 0, model.QueueMax),
			Help: "requests that may wait for a worker; beyond: 503"},
		{Name: "TARGET_QUEUE_TIMEOUT", Default: m.QueueTimeout.String(),
			Value: service.Duration(&m.QueueTimeout, model.QueueTimeoutMin, model.QueueTimeoutMax),
			Help:  "longest wait for a worker; beyond: 503"},
		{Name: "TARGET_ERROR_RATE", Default: fmt.Sprint(m.ErrorRate), Value: service.Float(&m.ErrorRate, 0, 1),
			Help: "share of the served requests that are answered 500"},
		{Name: "EVENT_LOOPS", Default: strconv.Itoa(min(runtime.GOMAXPROCS(0), 1024)),
			Value: service.Int(&c.Loops, 1, 1024),
			Help: "number of event loops; default: GOMAXPROCS, which is the number of processors or the container's CPU limit " +
				"(rounded up, at least 2)"},
		{Name: "TLS_CERT", Value: service.String(&c.CertFile),
			Help: "PEM file of the certificate (chain) to serve with; empty: no TLS"},
		{Name: "TLS_KEY", Value: service.String(&c.KeyFile), Help: "PEM file of its key"},
		{Name: "DRAIN_TIMEOUT", Default: c.DrainTimeout.String(), Value: service.Duration(&c.DrainTimeout, 0, time.Hour),
			Help: "how long requests in progress may take after SIGTERM"},
	})
}
