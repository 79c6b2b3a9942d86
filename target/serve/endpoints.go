package serve

import (
	"log/slog"
	"math"
	"net/http"
	"time"

	"weir/internal/data/strict"
	"weir/internal/program/service"
	"weir/target/model"
)

// A behaviour is the JSON of GET and POST /model. POST leaves absent fields unchanged. Times are
// in seconds.
type behaviour struct {
	Delay        float64    `json:"delay"`
	DelayDist    model.Dist `json:"delayDist"`
	Workers      int        `json:"workers"`
	Queue        int        `json:"queue"`
	QueueTimeout float64    `json:"queueTimeout"`
	ErrorRate    float64    `json:"errorRate"`
}

func behaviourOf(c model.Config) behaviour {
	return behaviour{c.Delay.Seconds(), c.Dist, c.Workers, c.Queue, c.QueueTimeout.Seconds(), c.ErrorRate}
}

func (b behaviour) config() model.Config {
	return model.Config{Delay: durationOf(b.Delay), Dist: b.DelayDist, Workers: b.Workers, Queue: b.Queue,
		QueueTimeout: durationOf(b.QueueTimeout), ErrorRate: b.ErrorRate}
}

// durationOf converts seconds, rounded to nanoseconds. Those that exceed a Duration become another
// one that is invalid for a model.
func durationOf(seconds float64) time.Duration {
	return time.Duration(math.Round(max(-1e18, min(seconds*1e9, 1e18))))
}

// endpoints returns the own endpoints, whose handlers run in the pool.
func (s *Server) endpoints(e *service.Env) *service.Endpoints {
	own := service.NewEndpoints(e)
	own.HandleJSON("GET /model",
		func(http.ResponseWriter, *http.Request) (any, error) { return behaviourOf(s.station.config()), nil })
	log := e.Logger("Model")
	own.HandleJSON("POST /model", func(w http.ResponseWriter, r *http.Request) (any,
		error) {
		return s.postModel(log, w, r)
	})
	return own
}

func (s *Server) postModel(log *slog.Logger, w http.ResponseWriter, r *http.Request) (any, error) {
	body, err := service.ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.station.config()
	wanted := behaviourOf(before)
	if err := strict.DecodeOverDefaults(body, &wanted); err != nil {
		return nil, service.WithStatus(http.StatusBadRequest, err)
	}
	after := wanted.config()
	if err := s.station.change(time.Now(), after); err != nil {
		return nil, service.WithStatus(http.StatusBadRequest, err)
	}
	// The change may have ended requests, which a loop must answer.
	s.shards[0].loop.Post(s.shards[0].handleAlarm)
	if after != before {
		log.Info("Changed the model", "delay", after.Delay, "delayDist", after.Dist, "workers", after.Workers,
			"queue", after.Queue, "queueTimeout", after.QueueTimeout, "errorRate", after.ErrorRate)
	}
	return behaviourOf(after), nil
}
