package service

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/goccy/go-json"

	"weir/internal/strict"
)

// BodyBytesMax bounds the body that ReadBody reads. A larger one gets 413.
const BodyBytesMax = 4 << 20

// WriteJSON answers with v as JSON; see strict.Plain. It answers 500 if v has no JSON
// form.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalWithOption(v, json.DisableHTMLEscape())
	if err != nil {
		status = http.StatusInternalServerError
		body = []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(strict.Plain(body), '\n')) // the client may have left
}

// errorAnswer is the JSON of all errors.
type errorAnswer struct {
	Error string `json:"error"`
	Path  string `json:"path,omitempty"`
}

// WriteError answers with {"error": sentence}, and with the path if err is a
// strict.Fault. Several faults are written as one sentence, with the path of the first.
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

// ReadBody reads the whole body of r, at most 4 MiB. If that fails, it answers 413 or 400
// and returns ok false.
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

// ReadJSON decodes the body of r, which is JSON as strict.Decode reads it. When it
// cannot, it answers 413 or 400 and returns false.
func ReadJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	body, ok := ReadBody(w, r)
	if !ok {
		return false
	}
	if err := strict.Decode(body, into); err != nil {
		WriteError(w, http.StatusBadRequest, err)
		return false
	}
	return true
}

var (
	errBodyTooLarge = errors.New("the body is larger than 4 MiB")
	errBodyCut      = errors.New("the body ended early")
)

// Content security policies. A page may show what it contains; a live page may also run
// its script and send requests to the program.
const (
	StillPage = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
	LivePage  = StillPage + "; script-src 'unsafe-inline'; connect-src 'self'"
)

// WritePage answers with an HTML page that must not be cached. policy is StillPage or
// LivePage.
func WritePage(w http.ResponseWriter, policy string, page []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(page) // the browser may have left
}
