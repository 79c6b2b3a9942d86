package service

import (
	"net/http"
	"sync"
)

// Health is what a program tells of its own state at /actuator/health. The zero
// value is ready for use and not ready for traffic.
//
// Two questions are answered apart. Does the process work (liveness)? As long
// as it can answer, yes: restarting it would help nobody. Should it be sent
// traffic (readiness)? Not while it starts, drains, or has nowhere to send it.
//
// Safe for concurrent use: a mutex guards the fields; components are asked
// without it.
type Health struct {
	mu         sync.Mutex
	ready      bool
	draining   bool
	components []component
}

// A component is a part whose state is shown along.
type component struct {
	name string
	read func() any
}

// SetReady says whether the program wants traffic. While it drains the answer
// stays no.
func (h *Health) SetReady(ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = ready
}

// Ready says whether the program wants traffic.
func (h *Health) Ready() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ready && !h.draining
}

// Component adds a part under name. read is called with every answer, on the
// goroutine that answers, and returns what is written as JSON there:
// something with a "status" of UP or DOWN.
func (h *Health) Component(name string, read func() any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.components = append(h.components, component{name, read})
}

// drain ends readiness for good.
func (h *Health) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// A healthAnswer is the JSON of both questions.
type healthAnswer struct {
	Status     string         `json:"status"`
	Components map[string]any `json:"components,omitempty"`
}

// answer asks the components.
func (h *Health) answer(status string) healthAnswer {
	h.mu.Lock()
	components := h.components
	h.mu.Unlock()
	a := healthAnswer{Status: status, Components: make(map[string]any, len(components))}
	for _, c := range components {
		a.Components[c.name] = c.read()
	}
	return a
}

// serveLiveness answers /actuator/health.
func (h *Health) serveLiveness(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, h.answer("UP"))
}

// serveReadiness answers /actuator/health/readiness.
func (h *Health) serveReadiness(w http.ResponseWriter, _ *http.Request) {
	if h.Ready() {
		WriteJSON(w, http.StatusOK, h.answer("UP"))
		return
	}
	WriteJSON(w, http.StatusServiceUnavailable, h.answer("OUT_OF_SERVICE"))
}
