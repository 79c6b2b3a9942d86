package service

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/klauspost/compress/gzhttp"

	"weir/internal/program/metric"
)

// Endpoints serves a program's own endpoints as listed by OwnEndpoints. Requests to
// guarded ones pass the AccessGuard first, unknown parameters get 400, and the errors of the
// mux, 404 for an unknown path and 405 (with Allow) for a wrong method, are answered as
// JSON.
//
// Immutable once it serves.
type Endpoints struct {
	mux    *http.ServeMux
	guard  *AccessGuard
	health *Health
	known  map[string]Endpoint // by pattern
}

// NewEndpoints returns Endpoints with those that every program has:
//
//	GET /metrics, /actuator/prometheus     metrics, compressed on request
//	GET /actuator/health                   200 while the process works
//	GET /actuator/health/readiness         200 if it is ready for traffic, else 503
//
// A program adds its own.
func NewEndpoints(e *Env) *Endpoints {
	o := &Endpoints{mux: http.NewServeMux(), guard: cmp.Or(e.Guard, new(AccessGuard)), health: e.Health,
		known: make(map[string]Endpoint)}
	for _, one := range OwnEndpoints() {
		o.known[one.Pattern] = one
	}
	scrape := compressed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metric.ContentType)
		e.Metrics.Write(w)
	}))
	o.HandleFunc("GET /metrics", scrape.ServeHTTP)
	o.HandleFunc("GET /actuator/prometheus", scrape.ServeHTTP)
	o.HandleFunc("GET "+livenessPath, func(w http.ResponseWriter, _ *http.Request) { o.health.liveness().write(w) })
	o.HandleFunc("GET "+readinessPath, func(w http.ResponseWriter, _ *http.Request) { o.health.readiness().write(w) })
	return o
}

// HandleFunc registers the handler of a pattern. It panics if OwnEndpoints does not list
// the pattern.
func (e *Endpoints) HandleFunc(pattern string, h http.HandlerFunc) {
	one, known := e.known[pattern]
	if !known {
		panic("bug: OwnEndpoints does not list " + pattern)
	}
	h = one.checkQuery(h)
	if one.Guarded {
		h = e.guard.protect(pattern, h)
	}
	e.mux.HandleFunc(pattern, h)
}

// HandleJSON registers a handler that returns what is answered as JSON, or an error, which is
// answered with its [StatusOf]. The handler may set fields of the answer.
func (e *Endpoints) HandleJSON(pattern string, h func(w http.ResponseWriter, r *http.Request) (any, error)) {
	e.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		answer, err := h(w, r)
		if err != nil {
			WriteError(w, StatusOf(err), err)
			return
		}
		WriteJSON(w, http.StatusOK, answer)
	})
}

// ForOperators returns the endpoints without those whose answers are content of clients or
// targets: a script in such an answer could use all other endpoints on behalf of an operator
// whose browser shows it.
func (e *Endpoints) ForOperators() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := e.mux.Handler(r); e.known[pattern].ServesUntrustedContent() {
			SetCSP(w.Header(), "")
			WriteError(w, http.StatusMisdirectedRequest, errors.New(
				"this port is for operators and does not show what targets have answered; allowed: the same path on "+
					"the port for clients"))
			return
		}
		e.ServeHTTP(w, r)
	})
}

// Metrics returns a handler that answers GET /metrics at another path, and nothing else.
func (e *Endpoints) Metrics(path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			SetCSP(w.Header(), "")
			WriteError(w, http.StatusNotFound, errors.New("not found: "+r.URL.Path+"; metrics are at "+path))
			return
		}
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = "/metrics", ""
		e.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler.
func (e *Endpoints) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	SetCSP(w.Header(), "")
	own, pattern := e.mux.Handler(r)
	if pattern != "" {
		e.mux.ServeHTTP(w, r)
		return
	}
	refusal := newReplyWriter()
	own.ServeHTTP(refusal, r)
	if allow := refusal.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
	}
	switch refusal.status {
	case http.StatusNotFound:
		WriteError(w, http.StatusNotFound, errors.New("not found: "+r.URL.Path))
	case http.StatusMethodNotAllowed:
		WriteError(w, http.StatusMethodNotAllowed,
			errors.New(r.Method+" is not allowed here; allowed: "+refusal.header.Get("Allow")))
	default:
		own.ServeHTTP(w, r)
	}
}

// compressed compresses answers with gzip for clients that accept it.
func compressed(h http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false))
	if err != nil {
		panic("bug: options of gzhttp: " + err.Error())
	}
	return wrap(h)
}
