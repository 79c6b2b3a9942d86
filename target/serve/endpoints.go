package serve

import (
	"log/slog"
	"math"
	"net/http"
	"time"

	"weir/internal/service"
	"weir/internal/strict"
	"weir/target/model"
)

// A modelAnswer is the JSON of GET /model. Times are seconds.
type modelAnswer struct {
	Delay        float64 `json:"delay"`
	DelayDist    string  `json:"delayDist"`
	Workers      int     `json:"workers"`
	Queue        int     `json:"queue"`
	QueueTimeout float64 `json:"queueTimeout"`
	ErrorRate    float64 `json:"errorRate"`
}

func answerOf(c model.Config) modelAnswer {
	return modelAnswer{
		Delay: c.Delay.Seconds(), DelayDist: c.Dist.String(), Workers: c.Workers,
		Queue: c.Queue, QueueTimeout: c.QueueTimeout.Seconds(), ErrorRate: c.ErrorRate,
	}
}

// A modelChange is the JSON of POST /model: what is not there stays as it is.
type modelChange struct {
	Delay        *float64 `json:"delay"`
	DelayDist    *string  `json:"delayDist"`
	Workers      *int     `json:"workers"`
	Queue        *int     `json:"queue"`
	QueueTimeout *float64 `json:"queueTimeout"`
	ErrorRate    *float64 `json:"errorRate"`
}

// over returns c with what the change says. dist is the parsed DelayDist.
func (m *modelChange) over(c model.Config, dist model.Dist) model.Config {
	if m.Delay != nil {
		c.Delay = durationOf(*m.Delay)
	}
	if m.DelayDist != nil {
		c.Dist = dist
	}
	if m.Workers != nil {
		c.Workers = *m.Workers
	}
	if m.Queue != nil {
		c.Queue = *m.Queue
	}
	if m.QueueTimeout != nil {
		c.QueueTimeout = durationOf(*m.QueueTimeout)
	}
	if m.ErrorRate != nil {
		c.ErrorRate = *m.ErrorRate
	}
	return c
}

// durationOf converts seconds, rounded to nanoseconds. What is too much for a
// Duration becomes the most or least there is, which no model allows.
func durationOf(seconds float64) time.Duration {
	ns := math.Round(seconds * 1e9)
	switch {
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(ns)
}

// endpoints are the own endpoints; their handlers run at the desk.
func (s *Server) endpoints(e *service.Env) *service.Endpoints {
	own := service.NewEndpoints(e)
	own.HandleFunc("GET /model", func(w http.ResponseWriter, _ *http.Request) {
		service.WriteJSON(w, http.StatusOK, answerOf(s.station.config()))
	})
	log := e.Logger("Model")
	own.HandleFunc("POST /model", func(w http.ResponseWriter, r *http.Request) { s.postModel(log, w, r) })
	return own
}

// postModel changes the model in force.
func (s *Server) postModel(log *slog.Logger, w http.ResponseWriter, r *http.Request) {
	body, ok := service.ReadBody(w, r)
	if !ok {
		return
	}
	var change modelChange
	if err := strict.Decode(body, &change); err != nil {
		service.WriteError(w, http.StatusBadRequest, err)
		return
	}
	var dist model.Dist
	if change.DelayDist != nil {
		var err error
		if dist, err = model.ParseDist(*change.DelayDist); err != nil {
			service.WriteError(w, http.StatusBadRequest, strict.At("delayDist", err))
			return
		}
	}
	before, after, err := s.station.change(time.Now(), func(c model.Config) model.Config { return change.over(c, dist) })
	if err != nil {
		service.WriteError(w, http.StatusBadRequest, err)
		return
	}
	// The change may have ended requests; some loop has to answer them.
	s.rooms[0].loop.Post(s.rooms[0].ring)
	if after != before {
		log.Info("Changed the model", "delay", after.Delay, "delayDist", after.Dist, "workers", after.Workers,
			"queue", after.Queue, "queueTimeout", after.QueueTimeout, "errorRate", after.ErrorRate)
	}
	service.WriteJSON(w, http.StatusOK, answerOf(after))
}
