package control

import (
	_ "embed"
	"net/http"

	"weir/internal/chart"
	"weir/internal/service"
	"weir/loadgen/report"
)

// livePage polls /test/status and displays it. It loads nothing else.
//
//go:embed page.html
var livePage string

func serveLive(w http.ResponseWriter, _ *http.Request) {
	service.WritePage(w, service.LivePage, []byte(chart.Asking(livePage)))
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
	service.WritePage(w, service.StillPage, page)
}
