package delivery

import (
	_ "embed"
	"net/http"

	"weir/internal/chart"
	"weir/internal/service"
)

// pageText shows operators what GET /config/deferred lists, and sends orders. It contains
// nothing of the queue itself, so that browsers can load it without the token.
//
//go:embed page.html
var pageText string

func servePage(w http.ResponseWriter, _ *http.Request) {
	service.WritePage(w, service.LivePage, []byte(chart.Asking(pageText)))
}
