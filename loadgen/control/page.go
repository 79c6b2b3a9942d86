package control

import (
	_ "embed"
	"net/http"

	"weir/internal/service"
	"weir/loadgen/report"
)

// livePage polls /test/status and draws what it says. It needs nothing else.
//
//go:embed page.html
var livePage []byte

// What the pages may do: nothing but what they bring along, and asking us.
const (
	livePolicy   = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"
	reportPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
)

func serveLive(w http.ResponseWriter, _ *http.Request) { writePage(w, livePolicy, livePage) }

func (r *Runs) serveReport(w http.ResponseWriter, _ *http.Request) {
	result, ok := r.finished(w)
	if !ok {
		return
	}
	page, err := report.HTML(result)
	if err != nil {
		service.WriteError(w, http.StatusInternalServerError, err)
		return
	}
	writePage(w, reportPolicy, page)
}

// writePage answers with a page that is not to be kept: it is another one soon.
func writePage(w http.ResponseWriter, policy string, page []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(page) // the browser may be gone
}
