package control

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"weir/internal/data/chart"
	"weir/internal/data/strict"
	"weir/internal/program/service"
	"weir/loadgen/plan"
	"weir/loadgen/record"
	"weir/loadgen/report"
)

// Register adds the endpoints of the tests to own:
//
//	POST /test/start    a configuration → 200, 400, 409 while a test runs
//	POST /test/stop     → 200 when the test has ended, 404 when none runs
//	GET  /test/status   the current state; ?after=12 (seconds): with the rows
//	                    of its series that begin later, -1 for all
//	GET  /test/plans    the names of the configurations that start can have by name
//	GET  /test/config   the configuration of the current or last test, with all values
//	GET  /test/result   the result of the last test, with the configuration as
//	                    plan.Config.Masked returns it
//	GET  /test/report   the same as an HTML page with plots
//	GET  /              a page that starts tests and shows their progress
func (r *Runs) Register(own *service.Endpoints) {
	own.HandleJSON("POST /test/start", r.serveStart)
	own.HandleJSON("POST /test/stop", r.serveStop)
	own.HandleJSON("GET /test/status", r.serveStatus)
	own.HandleJSON("GET /test/plans", r.servePlans)
	own.HandleJSON("GET /test/config", r.serveConfig)
	own.HandleJSON("GET /test/result", r.serveResult)
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

func notFound(problem string) error {
	return service.WithStatus(http.StatusNotFound, errors.New(problem))
}

const noneYet = "no test has been run yet"

type changed struct {
	Status string `json:"status"`
	TestID string `json:"testId"`
}

func (r *Runs) serveStart(w http.ResponseWriter, req *http.Request) (any, error) {
	body, err := service.ReadBody(w, req)
	if err != nil {
		return nil, err
	}
	run, err := r.Start(body)
	if err != nil {
		return nil, service.WithStatus(statusOf(err), err)
	}
	return changed{"started", run.ID()}, nil
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, errRunning):
		return http.StatusConflict
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

func (r *Runs) serveStop(http.ResponseWriter, *http.Request) (any, error) {
	id, ok := r.Stop()
	if !ok {
		return nil, notFound("no test is running")
	}
	return changed{"stopped", id}, nil
}

// servePlans lists the configurations of CONFIG_DIR; more counts those that the list leaves out.
func (r *Runs) servePlans(http.ResponseWriter, *http.Request) (any, error) {
	names, more, err := plan.Names(r.folder)
	return struct {
		Plans []string `json:"plans"`
		More  int      `json:"more"`
	}{append([]string{}, names...), more}, err
}

func (r *Runs) serveConfig(http.ResponseWriter, *http.Request) (any, error) {
	run, _ := r.Current()
	if run == nil {
		return nil, notFound(noneYet)
	}
	return run.Plan().Config, nil
}

func (r *Runs) serveStatus(_ http.ResponseWriter, req *http.Request) (any, error) {
	var after *float64
	if text := req.URL.Query().Get("after"); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != v {
			return nil, strict.Fault{Path: "after", Message: fmt.Sprintf("must be a number of seconds, is %q", text)}
		}
		after = &v
	}
	return r.status(after), nil
}

func (r *Runs) serveResult(http.ResponseWriter, *http.Request) (any, error) { return r.finished() }

// finished returns the result of the last test. The error means that there is none.
func (r *Runs) finished() (*record.Result, error) {
	run, running := r.Current()
	switch {
	case run == nil:
		return nil, notFound(noneYet)
	case running:
		return nil, notFound("the test is still running and has no result yet")
	}
	return run.Result(), nil
}

// livePage polls /test/status and displays it. It loads nothing else.
//
//go:embed page.html
var livePage string

func serveLive(w http.ResponseWriter, _ *http.Request) {
	service.WritePage(w, service.CSPLive, []byte(chart.PageWithTokenPrompt(livePage)))
}

func (r *Runs) serveReport(w http.ResponseWriter, _ *http.Request) {
	result, err := r.finished()
	var page []byte
	if err == nil {
		page, err = report.HTML(result)
	}
	if err != nil {
		service.WriteError(w, service.StatusOf(err), err)
		return
	}
	service.WritePage(w, service.CSPStatic, page)
}
