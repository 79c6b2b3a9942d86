package delivery

import (
	_ "embed"
	"net/http"

	"weir/internal/data/chart"
	"weir/internal/program/service"
)

// pageText is the page on which operators see what GET /config/deferred lists, and edit it. It
// contains no data of the queue, so browsers can load it without the token.
//
//go:embed page.html
var pageText string

func servePage(w http.ResponseWriter, _ *http.Request) {
	service.WritePage(w, service.CSPLive, []byte(chart.PageWithTokenPrompt(pageText)))
}
