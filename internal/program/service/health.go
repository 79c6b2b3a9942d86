package service

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/timing/every"
)

const (
	livenessPath  = "/actuator/health"
	readinessPath = "/actuator/health/readiness"
)

// healthPause is the time between two queries of the components.
const healthPause = 500 * time.Millisecond

// Health is a program's own state, shown at /actuator/health. The zero value is ready for
// use and not ready for traffic.
//
// Liveness asks whether the process works. As long as it can answer, it does: restarting
// it would not help. Readiness asks whether it should be sent traffic. It should not
// while it starts, drains, or has no target.
//
// Answers never block: the components are queried beforehand, twice a second, and only
// ready and draining are read for each request.
//
// Safe for concurrent use: a mutex guards components and answers; components are queried without it.
type Health struct {
	ready, draining atomic.Bool

	mu         sync.Mutex
	components []component
	answers    map[string]json.RawMessage // answers of the components to the last query; replaced, never changed
}

// A component is a part of the program whose state is shown too.
type component struct {
	name string
	read func() any
}

// SetReady reports whether the program is ready for traffic. While it drains it is never
// ready.
func (h *Health) SetReady(ready bool) { h.ready.Store(ready) }

// Ready reports whether the program is ready for traffic.
func (h *Health) Ready() bool { return h.ready.Load() && !h.draining.Load() }

// Component adds a component. read returns what is shown as JSON: a value with a "status"
// of UP or DOWN. It is called at once, and then twice a second.
func (h *Health) Component(name string, read func() any) {
	h.mu.Lock()
	h.components = append(h.components, component{name, read})
	h.mu.Unlock()
	h.ask()
}

// follow queries the components repeatedly until stop is called, which waits for the last
// query.
func (h *Health) follow() (stop func()) {
	return background(func(over <-chan struct{}) { every.Interval(over, healthPause, func(time.Time) { h.ask() }) })
}

func (h *Health) ask() {
	h.mu.Lock()
	components := h.components
	h.mu.Unlock()
	answers := make(map[string]json.RawMessage, len(components))
	for _, c := range components {
		text, err := json.Marshal(c.read())
		if err != nil {
			text = []byte(`"unknown"`)
		}
		answers[c.name] = text
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(answers) == len(h.components) { // none was added meanwhile
		h.answers = answers
	}
}

// Drain ends readiness for good: the program is no longer ready, whatever SetReady says
// later. A signal does the same.
func (h *Health) Drain() { h.draining.Store(true) }

// A healthAnswer is the JSON of both answers.
type healthAnswer struct {
	Status     string                     `json:"status"`
	Components map[string]json.RawMessage `json:"components,omitempty"`
}

func (h *Health) liveness() Response { return h.reply(http.StatusOK, "UP") }

func (h *Health) readiness() Response {
	if h.Ready() {
		return h.reply(http.StatusOK, "UP")
	}
	return h.reply(http.StatusServiceUnavailable, "OUT_OF_SERVICE")
}

func (h *Health) reply(status int, word string) Response {
	h.mu.Lock()
	a := healthAnswer{word, h.answers}
	h.mu.Unlock()
	return replyOf(func(w http.ResponseWriter) { WriteJSON(w, status, a) })
}
