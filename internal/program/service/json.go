package service

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/goccy/go-json"

	"weir/internal/data/strict"
)

// BodyBytesMax bounds the body that ReadBody reads.
const BodyBytesMax = 4 << 20

// WriteJSON answers with v as JSON; see strict.NormalizeJSON. It answers 500 if v has no JSON
// form.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalWithOption(v, json.DisableHTMLEscape())
	if err != nil {
		status = http.StatusInternalServerError
		body = []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(strict.NormalizeJSON(body), '\n')) // the client may have left
}

// WriteError answers with {"error": sentence}, and with the path if err is a
// strict.Fault. Several faults are written as one sentence, with the path of the first.
func WriteError(w http.ResponseWriter, status int, err error) {
	var answer struct {
		Error string `json:"error"`
		Path  string `json:"path,omitempty"`
	}
	answer.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	if e, ok := errors.AsType[strict.Fault](err); ok {
		answer.Path = e.Path
		if err.Error() == e.Error() {
			answer.Error = e.Message
		}
	}
	WriteJSON(w, status, answer)
}

// WithStatus returns err with the status of the answer that reports it.
func WithStatus(status int, err error) error { return &statusError{err, status} }

// A statusError is an error with the status of the answer that reports it.
type statusError struct {
	error
	status int
}

// Unwrap returns the error without the status.
func (e *statusError) Unwrap() error { return e.error }

// StatusOf returns the status of the answer that reports err: that of WithStatus, 400 for a
// strict.Fault or strict.Faults, otherwise 500. A fault that another error wraps is not the
// request's.
func StatusOf(err error) int {
	switch e := err.(type) {
	case *statusError:
		return e.status
	case strict.Fault, strict.Faults:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// ReadBody reads the whole body of r, at most 4 MiB. The error has a status.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return ReadBodyUpTo(w, r, BodyBytesMax, "4 MiB")
}

// ReadBodyUpTo is ReadBody with another bound, which the error calls size. A larger body gets 413.
func ReadBodyUpTo(w http.ResponseWriter, r *http.Request, most int64, size string) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, WithStatus(http.StatusRequestEntityTooLarge, errors.New("the body is larger than "+size))
	}
	if err != nil {
		return nil, WithStatus(http.StatusBadRequest, errors.New("the body ended early"))
	}
	return body, nil
}

// ReadJSON decodes the body of r, which is JSON as strict.Decode reads it.
func ReadJSON(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := ReadBody(w, r)
	if err != nil {
		return err
	}
	return strict.Decode(body, into)
}

// Content security policies. A page may show what it contains; a live page may also run
// its script and send requests to the program.
const (
	CSPStatic = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
	CSPLive   = CSPStatic + "; script-src 'unsafe-inline'; connect-src 'self'"
)

// WritePage answers with an HTML page that must not be cached. policy is CSPStatic or
// CSPLive.
func WritePage(w http.ResponseWriter, policy string, page []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	SetCSP(h, policy)
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(page) // the browser may have left
}

// SetCSP sets the content security policy of an own answer, which may be empty. Whatever
// it is, no page may show the answer in a frame: a click there would be one on an own page
// (Content Security Policy Level 3, section 6.4.2; RFC 7034 for older browsers), and browsers
// do not guess another type than its Content-Type. Endpoints and HandlerPool set it for every answer.
func SetCSP(h http.Header, policy string) {
	const unframed = "frame-ancestors 'none'"
	if policy != "" {
		policy += "; "
	}
	h.Set("Content-Security-Policy", policy+unframed)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
}
