package delivery

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"weir/internal/program/service"
	"weir/proxy/deferred"
)

// sandbox keeps a browser that shows a result from running it as a page of this origin, on which
// the own endpoints may be too.
const sandbox = "sandbox"

// Fields of results: the state of the request, and the status of the target's answer.
const (
	stateField  = "X-Weir-State"
	statusField = "X-Weir-Status"
)

// result answers with the target's answer: with its status if the request is done, and with 200 if
// it has failed, because other statuses are about the request for the result.
func (d *Dispatcher) result(_ context.Context, w http.ResponseWriter, e *deferred.Entry, position int) {
	switch {
	case !e.State.Final():
		w.Header().Set("Retry-After", retrySeconds(e))
		service.WriteJSON(w, http.StatusTooEarly, shownOf(e, position))
	case e.Result != nil && e.State == deferred.Done:
		writeResult(w, e, e.Result.Status)
	case e.Result != nil && e.State == deferred.Failed:
		writeResult(w, e, http.StatusOK)
	default:
		service.WriteJSON(w, http.StatusGone, shownOf(e, position))
	}
}

// writeResult answers with a target's answer, with a status. Its content is not trusted: its type is the one that
// the target has declared, never a guess, and browsers do not run it.
func writeResult(w http.ResponseWriter, e *deferred.Entry, status int) {
	h, r := w.Header(), e.Result
	for _, f := range fieldsOf(r.Head) {
		switch name := http.CanonicalHeaderKey(f[0]); name {
		case "Content-Length", "Cache-Control", "X-Content-Type-Options": // the stored body may be only a part
		default:
			h.Add(name, f[1])
		}
	}
	if len(r.Body) > 0 {
		if len(h["Content-Type"]) != 1 {
			h.Set("Content-Type", service.OctetStream)
		}
		if !shows(h.Get("Content-Type")) && !saves(h["Content-Disposition"]) {
			h.Set("Content-Disposition", "attachment")
		}
	}
	h.Set(stateField, e.State.String())
	h.Set(statusField, fmt.Sprint(r.Status))
	service.SetCSP(h, sandbox)
	if r.Truncated {
		h.Set("X-Weir-Truncated", fmt.Sprint(r.Bytes))
	}
	w.WriteHeader(status)
	_, _ = w.Write(r.Body) // cannot fail: w is in memory
}

// shows reports whether a browser may show content of a type: JSON or plain text.
func shows(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "text/plain" || kind == "application/json" ||
		strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"))
}

// saves reports whether the values of Content-Disposition have a browser save the content.
func saves(values []string) bool {
	if len(values) != 1 {
		return false
	}
	kind, _, err := mime.ParseMediaType(values[0])
	return err == nil && kind == "attachment"
}
