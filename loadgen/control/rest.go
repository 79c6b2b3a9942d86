package control

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"weir/internal/service"
	"weir/internal/strict"
	"weir/loadgen/plan"
	"weir/loadgen/record"
)

// Register adds the endpoints of the tests to own:
//
//	POST /test/start    a configuration → 200, 400, 409 while a test runs
//	POST /test/stop     → 200 when the test has ended, 404 when none runs
//	GET  /test/status   the current state; ?after=12 (seconds): with the rows
//	                    of its series that begin later, -1 for all
//	GET  /test/config   the configuration of the current or last test
//	GET  /test/result   the result of the last test
//	GET  /test/report   the same as an HTML page with plots
//	GET  /              a page that shows the progress
func (r *Runs) Register(own *service.Endpoints) {
	own.HandleFunc("POST /test/start", r.serveStart)
	own.HandleFunc("POST /test/stop", r.serveStop)
	own.HandleFunc("GET /test/status", r.serveStatus)
	own.HandleFunc("GET /test/config", r.serveConfig)
	own.HandleFunc("GET /test/result", r.serveResult)
	own.HandleFunc("GET /test/report", r.serveReport)
	own.HandleFunc("GET /{$}", serveLive)
}

// Health returns the state of the tests for /actuator/health.
func (r *Runs) Health() any {
	_, running := r.Current()
	return struct {
		Status  string `json:"status"`
		Running bool   `json:"running"`
	}{"UP", running}
}

var (
	errNoneRuns = errors.New("no test is running")
	errNone     = errors.New("no test has been run yet")
	errRunning  = errors.New("the test is still running and has no result yet")
)

// changed is the JSON of a start or stop.
type changed struct {
	Status string `json:"status"`
	TestID string `json:"testId"`
}

func (r *Runs) serveStart(w http.ResponseWriter, req *http.Request) {
	body, ok := service.AnswerBody(w, req)
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

// statusOf returns the status for an error of Start.
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

// wrongConfig reports whether the configuration must be changed.
func wrongConfig(err error) bool {
	_, ok := errors.AsType[strict.Fault](err)
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

func (r *Runs) serveStatus(w http.ResponseWriter, req *http.Request) {
	var after *float64
	if text := req.URL.Query().Get("after"); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != v {
			service.WriteError(w, http.StatusBadRequest, strict.Fault{Path: "after", Message: fmt.Sprintf("must be a number of seconds, is %q", text)})
			return
		}
		after = &v
	}
	service.WriteJSON(w, http.StatusOK, r.status(after))
}

func (r *Runs) serveResult(w http.ResponseWriter, _ *http.Request) {
	if result, ok := r.finished(w); ok {
		service.WriteJSON(w, http.StatusOK, result)
	}
}

// finished returns the result of the last test in the form for everybody. If there is
// none it answers with an error and ok is false.
func (r *Runs) finished(w http.ResponseWriter) (result *record.Result, ok bool) {
	run, running := r.Current()
	switch {
	case run == nil:
		service.WriteError(w, http.StatusNotFound, errNone)
	case running:
		service.WriteError(w, http.StatusNotFound, errRunning)
	default:
		shown := *run.Result()
		shown.Config = masked(run.Plan().Config)
		return &shown, true
	}
	return nil, false
}

// masked returns a configuration without the credentials of its requests.
func masked(c plan.Config) plan.Config {
	c.RequestOptions.Headers = maps.Clone(c.RequestOptions.Headers)
	for name := range c.RequestOptions.Headers {
		switch strings.ToLower(name) {
		case "authorization", "cookie", "proxy-authorization", "x-api-key":
			c.RequestOptions.Headers[name] = "***"
		}
	}
	return c
}
