package plan

import (
	"strconv"
	"strings"
)

// A Request is what is sent, as segments.
//
// Immutable after Parse.
type Request struct {
	whole []byte // the request when all are the same
	head  []segment
	body  []segment
	seed  uint64
}

// Render returns the bytes of the request with the given number in the schedule of all
// shards, from 0. They are in scratch, which is replaced if it is too short, or belong to
// the Request. They are valid until the next Render with that scratch, and must not be
// modified.
func (r *Request) Render(scratch *[]byte, index uint64) []byte {
	if r.whole != nil {
		return r.whole
	}
	*scratch = r.append((*scratch)[:0], index)
	return *scratch
}

// append appends the request.
func (r *Request) append(dst []byte, index uint64) []byte {
	draws := mix(r.seed + mix(index))
	for i := range r.head {
		if s := &r.head[i]; s.kind == segmentLength {
			dst = strconv.AppendInt(dst, int64(r.bodySize(index, draws)), 10)
		} else {
			dst = s.append(dst, index, draws)
		}
	}
	for i := range r.body {
		dst = r.body[i].append(dst, index, draws)
	}
	return dst
}

func (r *Request) bodySize(index, draws uint64) int {
	n := 0
	for i := range r.body {
		n += r.body[i].size(index, draws)
	}
	return n
}

// changes reports whether segments differ from request to request.
func changes(segments []segment) bool {
	for i := range segments {
		if k := segments[i].kind; k != segmentLiteral && k != segmentLength {
			return true
		}
	}
	return false
}

// A head is assembled from literals and segments.
type head struct{ segments []segment }

// text appends a text.
func (h *head) text(s string) {
	n := len(h.segments)
	if n == 0 || h.segments[n-1].kind != segmentLiteral {
		h.segments = append(h.segments, segment{})
		n++
	}
	last := &h.segments[n-1]
	last.text = append(last.text, s...)
}

// add appends segments.
func (h *head) add(segments []segment) {
	for _, s := range segments {
		if s.kind == segmentLiteral {
			h.text(string(s.text))
		} else {
			h.segments = append(h.segments, s)
		}
	}
}

// field appends a field line.
func (h *head) field(name string, value []segment) {
	h.text(name + ": ")
	h.add(value)
	h.text("\r\n")
}

// A draft is a request that was checked and compiled in parts.
type draft struct {
	method    string
	target    []segment
	host      string
	headers   []draftField // in the order of their names
	keepAlive bool
	body      []segment
	hasBody   bool // Content-Length is sent
}

// A draftField is a field that the user sets.
type draftField struct {
	name  string
	value []segment
}

// request assembles the draft.
func (d *draft) request(seed int64) Request {
	var h head
	h.text(d.method + " ")
	h.add(d.target)
	h.text(" HTTP/1.1\r\n")
	d.standard(&h, "Host", d.host)
	d.standard(&h, "User-Agent", "weir-loadgen")
	d.standard(&h, "Accept", "*/*")
	for _, f := range d.headers {
		h.field(f.name, f.value)
	}
	if !d.keepAlive {
		h.field("Connection", []segment{{text: []byte("close")}})
	}
	if d.hasBody {
		h.field("Content-Length", []segment{{kind: segmentLength}})
	}
	h.text("\r\n")
	r := Request{head: h.segments, body: d.body, seed: uint64(seed)}
	if !changes(r.head) && !changes(r.body) {
		r.whole = r.append(nil, 0)
	}
	return r
}

// standard appends a field unless the user sets it.
func (d *draft) standard(h *head, name, value string) {
	for _, f := range d.headers {
		if strings.EqualFold(f.name, name) {
			return
		}
	}
	h.field(name, []segment{{text: []byte(value)}})
}
