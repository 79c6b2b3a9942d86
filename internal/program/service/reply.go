package service

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
)

// A Response is the answer of a handler as a value.
type Response struct {
	// Status is the status code.
	Status int
	// Fields are names and values in a fixed order, without the fields for framing and
	// connection management, which are up to the sender of the reply.
	Fields [][2]string
	// Body is what the handler wrote. For HEAD it is the body of GET, which the sender
	// leaves out.
	Body []byte
}

// A replyWriter is an http.ResponseWriter that keeps the answer in memory.
//
// Owned by the goroutine that runs the handler.
type replyWriter struct {
	header http.Header
	status int // 0 until WriteHeader
	body   bytes.Buffer
	fields http.Header // the header as it was at WriteHeader
}

func newReplyWriter() *replyWriter {
	w := &replyWriter{header: make(http.Header)}
	SetCSP(w.header, "")
	return w
}

// Header implements http.ResponseWriter.
func (w *replyWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. The first final status counts; interim ones
// are dropped.
func (w *replyWriter) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	w.fields = w.header.Clone()
}

// Write implements http.ResponseWriter.
func (w *replyWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	return w.body.Write(p)
}

// replyOf returns what answer writes.
func replyOf(answer func(w http.ResponseWriter)) Response {
	w := newReplyWriter()
	answer(w)
	w.WriteHeader(http.StatusOK)
	if w.body.Len() > 0 && w.fields.Get("Content-Type") == "" {
		w.fields.Set("Content-Type", OctetStream) // never guessed: a guess could make a page of it
	}
	r := Response{Status: w.status, Body: w.body.Bytes()}
	for _, name := range framing {
		delete(w.fields, name)
	}
	for _, name := range slices.Sorted(maps.Keys(w.fields)) {
		for _, value := range w.fields[name] {
			r.Fields = append(r.Fields, [2]string{name, value})
		}
	}
	return r
}

// write answers with r, and without fields that were set before.
func (r Response) write(w http.ResponseWriter) {
	clear(w.Header())
	for _, f := range r.Fields {
		w.Header().Add(f[0], f[1])
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // the client may have left
}

// OctetStream is the media type of content whose type is unknown (RFC 9110 section 8.3).
const OctetStream = "application/octet-stream"

// framing are the fields that are up to the sender of the reply.
var framing = [...]string{"Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Keep-Alive", "Upgrade"}
