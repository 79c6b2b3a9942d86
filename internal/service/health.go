package service

import (
	"net/http"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/every"
)

const (
	livenessPath  = "/actuator/health"
	readinessPath = "/actuator/health/readiness"
)

// healthPause is between two looks at the components: what is shown of them is
// never much older.
const healthPause = 500 * time.Millisecond

// Health is a program's own state, shown at /actuator/health. The zero
// value is ready for use and not ready for traffic.
//
// Two questions are answered apart. Does the process work (liveness)? As long
// as it can answer, yes: restarting it would not help. Should it be sent
// traffic (readiness)? Not while it starts, drains, or has nowhere to send it.
//
// Answers wait for nothing: the components are asked beforehand, twice a second, and
// only ready and draining are looked at for each request.
//
// Safe for concurrent use: a mutex guards the fields; components are asked
// without it.
type Health struct {
	mu         sync.Mutex
	ready      bool
	draining   bool
	components []component
	told       map[string]json.RawMessage // of the components, when they were last asked; replaced, never changed
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

// Component adds a part under name. read returns what is written as JSON there:
// something with a "status" of UP or DOWN. It is called at once, and then twice
// a second.
func (h *Health) Component(name string, read func() any) {
	h.mu.Lock()
	h.components = append(h.components, component{name, read})
	h.mu.Unlock()
	h.ask()
}

// follow asks the components again and again until stop is called, which waits
// for the last answer.
func (h *Health) follow() (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		every.Pause(over, healthPause, func(time.Time) { h.ask() })
	}()
	return func() {
		close(over)
		<-done
	}
}

// ask asks the components how they are.
func (h *Health) ask() {
	h.mu.Lock()
	components := h.components
	h.mu.Unlock()
	told := make(map[string]json.RawMessage, len(components))
	for _, c := range components {
		text, err := json.Marshal(c.read())
		if err != nil {
			text = []byte(`"unknown"`)
		}
		told[c.name] = text
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(told) == len(h.components) { // none was added meanwhile
		h.told = told
	}
}

// Drain ends readiness for good: whatever SetReady says later, the program wants
// no more traffic. A signal does the same.
func (h *Health) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// A healthAnswer is the JSON of both questions.
type healthAnswer struct {
	Status     string                     `json:"status"`
	Components map[string]json.RawMessage `json:"components,omitempty"`
}

// liveness is the answer to /actuator/health.
func (h *Health) liveness() Reply { return h.reply(http.StatusOK, "UP") }

// readiness is the answer to /actuator/health/readiness.
func (h *Health) readiness() Reply {
	if h.Ready() {
		return h.reply(http.StatusOK, "UP")
	}
	return h.reply(http.StatusServiceUnavailable, "OUT_OF_SERVICE")
}

func (h *Health) reply(status int, word string) Reply {
	h.mu.Lock()
	a := healthAnswer{word, h.told}
	h.mu.Unlock()
	w := newReplyWriter()
	WriteJSON(w, status, a)
	return w.reply()
}
