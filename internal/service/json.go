package service

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/goccy/go-json"

	"weir/internal/strict"
)

// BodyBytesMax is how many bytes ReadBody reads at most; a larger body is a 413.
const BodyBytesMax = 4 << 20

// WriteJSON answers with v as JSON, see strict.Plain. A v that has no JSON form is a
// 500.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalWithOption(v, json.DisableHTMLEscape())
	if err != nil {
		status = http.StatusInternalServerError
		body = []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(strict.Plain(body), '\n')) // the client may be gone
}

// errorAnswer is the JSON of every refusal.
type errorAnswer struct {
	Error string `json:"error"`
	Path  string `json:"path,omitempty"`
}

// WriteError answers with {"error": sentence}, and with the path when err is a
// strict.Fault. Errors of several faults are told
// whole, with the path of the first.
func WriteError(w http.ResponseWriter, status int, err error) {
	answer := errorAnswer{Error: strings.ReplaceAll(err.Error(), "\n", "; ")}
	if e, ok := errors.AsType[strict.Fault](err); ok {
		answer.Path = e.Path
		if err.Error() == e.Error() {
			answer.Error = e.Message
		}
	}
	WriteJSON(w, status, answer)
}

// ReadBody reads the whole body of r, at most 4 MiB. When it cannot, it answers
// 413 or 400 and ok is false.
func ReadBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, BodyBytesMax))
	if err == nil {
		return body, true
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		WriteError(w, http.StatusRequestEntityTooLarge, errBodyTooLarge)
	} else {
		WriteError(w, http.StatusBadRequest, errBodyCut)
	}
	return nil, false
}

var (
	errBodyTooLarge = errors.New("the body is larger than 4 MiB")
	errBodyCut      = errors.New("the body ended early")
)

// What pages may do: show what they bring along; a live page also runs its script and
// asks us.
const (
	StillPage = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
	LivePage  = StillPage + "; script-src 'unsafe-inline'; connect-src 'self'"
)

// WritePage answers with an HTML page that is not to be kept: it is another one soon.
// policy is StillPage or LivePage.
func WritePage(w http.ResponseWriter, policy string, page []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(page) // the browser may be gone
}
