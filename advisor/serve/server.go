package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"weir/advisor/config"
	"weir/advisor/core"
	"weir/advisor/forecast"
	"weir/advisor/history"
	"weir/advisor/policy"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/program/watch"
	"weir/internal/timing/every"
)

// A Server is a running advisor.
//
// Safe for concurrent use: locked, resultLog and page have locks, metrics are atomic, the rest
// is set before the first request.
type Server struct {
	env       *service.Env
	cfg       config.Config
	log       *slog.Logger
	locked    *lockedCore
	saver     *saver // nil: nothing is saved
	resultLog *resultLog
	page      page
	places    chan struct{} // one per snapshot in progress

	results  [core.ResultCount]metric.Counter
	shed     metric.Counter
	posts    *metric.Histogram
	listener net.Listener
	events   *watch.Watcher // nil: no file of events
	others   sync.WaitGroup // goroutines other than the HTTP server
}

// Run runs the advisor: it serves until ctx ends, then answers requests in flight and
// saves its state.
func Run(ctx context.Context, e *service.Env, cfg config.Config) error {
	s, err := New(ctx, e, cfg)
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}

// New listens on e.Addr, restores the state and imports history. If the state cannot be
// saved as configured the error is a *service.SettingError.
func New(ctx context.Context, e *service.Env, cfg config.Config) (*Server, error) {
	l, err := net.Listen("tcp", e.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", e.Addr, err)
	}
	log := e.Logger("Advisor")
	s := &Server{
		env: e, cfg: cfg, log: log, locked: newLockedCore(tuningOf(&cfg)), resultLog: &resultLog{log: log}, listener: l,
		places: make(chan struct{}, postsMax), posts: metric.NewHistogram(metric.DecisionBuckets()),
	}
	if cfg.StateFile != "" {
		if s.saver, err = openSaver(time.Now(), &cfg, s.locked, e.Logger("State")); err != nil {
			l.Close()
			return nil, &service.SettingError{Name: "STATE_FILE", Value: cfg.StateFile,
				Problem: "cannot be used: " + err.Error(),
				Allowed: "a file in a writable folder, used by one advisor only"}
		}
	} else {
		log.Info("STATE_FILE is not set: what is learned does not survive a restart")
	}
	if cfg.HistoryURL != nil {
		s.locked.loadPast(ctx, time.Now(), history.Source{URL: cfg.HistoryURL, Query: cfg.HistoryQuery}, e.Logger("History"))
	}
	if cfg.EventsFile != "" {
		s.events = watch.New(cfg.EventsFile)
		// A change of the file since the start would otherwise go unnoticed.
		if now, err := config.ReadEvents(cfg.EventsFile, cfg.Zone); err != nil ||
			!slices.EqualFunc(now, cfg.Events, sameEvent) {
			s.follow()
		}
	}
	s.registerMetrics(e.Metrics)
	return s, nil
}

// tuningOf returns the settings of the core.
func tuningOf(c *config.Config) core.Settings {
	return core.Settings{
		Forecast: forecast.Settings{Location: c.Zone, Events: c.Events},
		Policy:   policy.Settings{LimitMin: c.LimitMin, LimitMax: c.LimitMax, CapacityHint: c.CapacityRPS, SLO: c.SLO},
	}
}

// Addr returns the listening address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers until ctx ends, and then closes the Server.
func (s *Server) Serve(ctx context.Context) error {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the last answer is sent
	s.others.Go(func() { s.resultLog.run(beside) })
	if s.saver != nil {
		s.others.Go(func() { every.Interval(beside.Done(), saverPause, s.saver.look) })
	}
	if s.events != nil {
		s.others.Go(func() { s.events.Run(beside, s.follow) })
		s.env.OnReload(s.reload, "events")
	}
	own := service.NewEndpoints(s.env)
	s.register(own)
	s.env.Health.Component("forecast", s.health)
	if s.saver != nil {
		s.env.Health.Component("state", s.saver.health)
	}
	s.env.Health.SetReady(true)
	s.log.Info("Listening", "address", s.Addr().String())
	err := service.Serve(ctx, s.listener, own, s.env.Logger("HttpServer"))
	s.env.Health.SetReady(false)
	stop()
	s.others.Wait()
	if s.saver != nil {
		s.saver.close(time.Now())
	}
	return err
}

func sameEvent(a, b forecast.Event) bool {
	return a.Name == b.Name && a.Start.Equal(b.Start) && a.End.Equal(b.End) && a.Ramp == b.Ramp
}

// follow reads the events again after their file has changed.
func (s *Server) follow() {
	if err := s.reload(); err != nil {
		s.log.Error("Events cannot be reloaded, the previous ones stay in use", "reason", err)
	}
}

// reload reads the events again. An invalid file changes nothing.
func (s *Server) reload() error {
	events, err := config.ReadEvents(s.cfg.EventsFile, s.cfg.Zone)
	if err == nil {
		t := tuningOf(&s.cfg)
		t.Forecast.Events = events
		s.locked.with(func(c *core.Core) { err = c.Reconfigure(t) })
	}
	if err != nil {
		return fmt.Errorf("EVENTS_FILE: %s: %w", s.cfg.EventsFile, err)
	}
	s.log.Info("Loaded the events", "file", s.cfg.EventsFile, "events", len(events))
	return nil
}

// health returns the state for /actuator/health.
func (s *Server) health() any {
	v := s.locked.view()
	return struct {
		Status   string     `json:"status"`
		Rounds   uint64     `json:"rounds"`
		Newest   *time.Time `json:"newest,omitempty"`
		Unshared int        `json:"unshared,omitempty"` // proxies with stores of their own, if there are several
	}{"UP", v.Rounds, instant(v.Newest), several(v.OwnStores)}
}

// several returns n, or 0 if n is 1.
func several(n int) int {
	if n < 2 {
		return 0
	}
	return n
}

// instant returns a pointer to at, or nil for the zero time.
func instant(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}
