package serve

import (
	"runtime"
	"time"

	"weir/internal/service"
	"weir/target/model"
)

// drainTimeoutDefault is how long requests under way may take when the program
// is to end.
const drainTimeoutDefault = 30 * time.Second

// Config sets up the target.
type Config struct {
	// Model is how the service behaves at first.
	Model model.Config
	// Loops is the number of event loops; 0 means one per processor.
	Loops int
	// DrainTimeout is how long requests under way may take when the program is
	// to end; what takes longer is cut.
	DrainTimeout time.Duration
	// Seed is where the model's chance comes from; 0 means another one with
	// every start.
	Seed uint64
}

// Default is the Config of a program without settings.
func Default() Config {
	return Config{Model: model.Default(), DrainTimeout: drainTimeoutDefault}
}

// Register registers the settings of the target; c receives them.
func (c *Config) Register(s *service.Settings) {
	*c = Default()
	m := &c.Model
	s.Duration(&m.Delay, "TARGET_DELAY", m.Delay, 0, model.DelayMax, "mean service time of /api/test")
	s.Word("TARGET_DELAY_DIST", m.Dist.String(), model.DistNames(), "distribution of the service time",
		func(word string) (err error) { m.Dist, err = model.ParseDist(word); return err })
	s.Int(&m.Workers, "TARGET_WORKERS", m.Workers, 0, model.WorkersMax,
		"requests served at a time, 0 for any number; capacity is workers / delay")
	s.Int(&m.Queue, "TARGET_QUEUE", m.Queue, 0, model.QueueMax, "requests that may wait for a worker; one more is answered 503")
	s.Duration(&m.QueueTimeout, "TARGET_QUEUE_TIMEOUT", m.QueueTimeout, model.QueueTimeoutMin, model.QueueTimeoutMax,
		"longest wait for a worker; beyond: 503")
	s.Float(&m.ErrorRate, "TARGET_ERROR_RATE", m.ErrorRate, 0, 1, "share of the served requests that is answered 500")
	s.Int(&c.Loops, "EVENT_LOOPS", runtime.GOMAXPROCS(0), 1, loopsMax, "number of event loops; default: GOMAXPROCS, which is the number of processors or the container's CPU limit (rounded up, at least 2)")
	s.Duration(&c.DrainTimeout, "DRAIN_TIMEOUT", c.DrainTimeout, 0, time.Hour,
		"how long requests under way may take after SIGTERM")
}

// loopsMax bounds EVENT_LOOPS.
const loopsMax = 1024
