package service

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"

	"weir/internal/metric"
)

// Endpoints returns a mux with what every program answers:
//
//	GET /metrics, /actuator/prometheus     metrics, compressed when asked for
//	GET /actuator/health                   200 while the process works
//	GET /actuator/health/readiness         200 when it wants traffic, else 503
//
// A program adds its own patterns and serves the mux through JSONErrors.
func Endpoints(e *Env) *http.ServeMux {
	scrape := compressed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metric.ContentType)
		e.Metrics.Write(w)
	}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrape)
	mux.Handle("GET /actuator/prometheus", scrape)
	mux.HandleFunc("GET /actuator/health", e.Health.serveLiveness)
	mux.HandleFunc("GET /actuator/health/readiness", e.Health.serveReadiness)
	return mux
}

// compressed answers with gzip to clients that accept it.
func compressed(h http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false))
	if err != nil {
		panic("bug: options of gzhttp: " + err.Error())
	}
	return wrap(h)
}
