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

// A behaviour is the JSON of GET /model, and of POST /model, where what is not there
// stays as it is. Times are seconds.
type behaviour struct {
	Delay        *float64 `json:"delay"`
	DelayDist    *string  `json:"delayDist"`
	Workers      *int     `json:"workers"`
	Queue        *int     `json:"queue"`
	QueueTimeout *float64 `json:"queueTimeout"`
	ErrorRate    *float64 `json:"errorRate"`
}

func behaviourOf(c model.Config) behaviour {
	delay, timeout, dist := c.Delay.Seconds(), c.QueueTimeout.Seconds(), c.Dist.String()
	return behaviour{&delay, &dist, &c.Workers, &c.Queue, &timeout, &c.ErrorRate}
}

// over returns c with what b says. dist is the parsed DelayDist.
func (b *behaviour) over(c model.Config, dist model.Dist) model.Config {
	if b.Delay != nil {
		c.Delay = durationOf(*b.Delay)
	}
	if b.DelayDist != nil {
		c.Dist = dist
	}
	if b.QueueTimeout != nil {
		c.QueueTimeout = durationOf(*b.QueueTimeout)
	}
	replace(&c.Workers, b.Workers)
	replace(&c.Queue, b.Queue)
	replace(&c.ErrorRate, b.ErrorRate)
	return c
}

// replace makes *v what by says, if anything.
func replace[T any](v, by *T) {
	if by != nil {
		*v = *by
	}
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
		service.WriteJSON(w, http.StatusOK, behaviourOf(s.station.config()))
	})
	log := e.Logger("Model")
	own.HandleFunc("POST /model", func(w http.ResponseWriter, r *http.Request) { s.postModel(log, w, r) })
	return own
}

// postModel changes the model in force.
func (s *Server) postModel(log *slog.Logger, w http.ResponseWriter, r *http.Request) {
	var change behaviour
	if !service.AnswerJSON(w, r, &change) {
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
	service.WriteJSON(w, http.StatusOK, behaviourOf(after))
}
