package serve

import (
	"runtime"
	"time"

	"weir/internal/service"
	"weir/target/model"
)

// A Config configures the target.
type Config struct {
	Model        model.Config  // initial behaviour of the service
	Loops        int           // event loops; 0: one per processor
	DrainTimeout time.Duration // how long requests in progress may take when the program ends; longer ones are cut
	Seed         uint64        // of the model's random numbers; 0: a new one at every start
}

// Default returns the Config of a program without settings.
func Default() Config {
	return Config{Model: model.Default(), DrainTimeout: 30 * time.Second}
}

// Register registers the settings of the target; c receives them.
func (c *Config) Register(s *service.Settings) {
	*c = Default()
	m := &c.Model
	s.Duration(&m.Delay, "TARGET_DELAY", m.Delay, 0, model.DelayMax, "mean service time of /api/test")
	s.Choice("TARGET_DELAY_DIST", m.Dist.String(), "distribution of the service time", service.Among(&m.Dist, model.Constant, model.Exponential, model.Lognormal))
	s.Int(&m.Workers, "TARGET_WORKERS", m.Workers, 0, model.WorkersMax,
		"requests served at the same time, 0 for any number; capacity is workers / delay")
	s.Int(&m.Queue, "TARGET_QUEUE", m.Queue, 0, model.QueueMax, "requests that may wait for a worker; beyond: 503")
	s.Duration(&m.QueueTimeout, "TARGET_QUEUE_TIMEOUT", m.QueueTimeout, model.QueueTimeoutMin, model.QueueTimeoutMax,
		"longest wait for a worker; beyond: 503")
	s.Float(&m.ErrorRate, "TARGET_ERROR_RATE", m.ErrorRate, 0, 1, "share of the served requests that are answered 500")
	s.Int(&c.Loops, "EVENT_LOOPS", runtime.GOMAXPROCS(0), 1, 1024, "number of event loops; default: GOMAXPROCS, which is the number of processors or the container's CPU limit (rounded up, at least 2)")
	s.Duration(&c.DrainTimeout, "DRAIN_TIMEOUT", c.DrainTimeout, 0, time.Hour,
		"how long requests in progress may take after SIGTERM")
}
