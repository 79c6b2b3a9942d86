package control

import (
	"errors"
	"net/http"

	"weir/internal/service"
	"weir/internal/strictjson"
)

// Register adds the endpoints of the tests to mux:
//
//	POST /test/start    a configuration → 200, 400, 409 while a test runs
//	POST /test/stop     → 200 when the test has ended, 404 when none runs
//	GET  /test/status   what it looks like now
//	GET  /test/config   the configuration that is run, or was last
//	GET  /test/result   the result of the last test
func (r *Runs) Register(mux *http.ServeMux) {
	mux.HandleFunc("POST /test/start", r.serveStart)
	mux.HandleFunc("POST /test/stop", r.serveStop)
	mux.HandleFunc("GET /test/status", func(w http.ResponseWriter, _ *http.Request) {
		service.WriteJSON(w, http.StatusOK, r.status())
	})
	mux.HandleFunc("GET /test/config", r.serveConfig)
	mux.HandleFunc("GET /test/result", r.serveResult)
}

// Health is the state of the tests for /actuator/health.
func (r *Runs) Health() any {
	_, running := r.Current()
	return struct {
		Status  string `json:"status"`
		Running bool   `json:"running"`
	}{"UP", running}
}

var (
	errNoneRuns = errors.New("no test is running")
	errNone     = errors.New("there was no test yet")
	errRunning  = errors.New("the test is running: it has no result yet")
)

// changed is the JSON of a start or stop.
type changed struct {
	Status string `json:"status"`
	TestID string `json:"testId"`
}

func (r *Runs) serveStart(w http.ResponseWriter, req *http.Request) {
	body, ok := service.ReadBody(w, req)
	if !ok {
		return
	}
	run, err := r.Start(body)
	if err != nil {
		service.WriteError(w, statusOf(err), err)
		return
	}
	service.WriteJSON(w, http.StatusOK, changed{"started", run.ID()})
}

// statusOf is the status for an error of Start.
func statusOf(err error) int {
	if _, ok := errors.AsType[*RunningError](err); ok {
		return http.StatusConflict
	}
	switch {
	case wrongConfig(err):
		return http.StatusBadRequest
	case errors.Is(err, errClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// wrongConfig says whether the configuration must be changed.
func wrongConfig(err error) bool {
	_, ok := errors.AsType[*strictjson.Error](err)
	return ok
}

func (r *Runs) serveStop(w http.ResponseWriter, _ *http.Request) {
	id, ok := r.Stop()
	if !ok {
		service.WriteError(w, http.StatusNotFound, errNoneRuns)
		return
	}
	service.WriteJSON(w, http.StatusOK, changed{"stopped", id})
}

func (r *Runs) serveConfig(w http.ResponseWriter, _ *http.Request) {
	run, _ := r.Current()
	if run == nil {
		service.WriteError(w, http.StatusNotFound, errNone)
		return
	}
	service.WriteJSON(w, http.StatusOK, run.Plan().Config)
}

func (r *Runs) serveResult(w http.ResponseWriter, _ *http.Request) {
	run, running := r.Current()
	switch {
	case run == nil:
		service.WriteError(w, http.StatusNotFound, errNone)
	case running:
		service.WriteError(w, http.StatusNotFound, errRunning)
	default:
		service.WriteJSON(w, http.StatusOK, run.Result())
	}
}
