package plan

import (
	"slices"
	"strconv"
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
	return slices.ContainsFunc(segments, func(s segment) bool { return s.kind != segmentLiteral && s.kind != segmentLength })
}

// A head is assembled from literals and segments.
type head struct{ segments []segment }

func (h *head) text(s string) {
	n := len(h.segments)
	if n == 0 || h.segments[n-1].kind != segmentLiteral {
		h.segments = append(h.segments, segment{})
		n++
	}
	last := &h.segments[n-1]
	last.text = append(last.text, s...)
}

func (h *head) add(segments []segment) {
	for _, s := range segments {
		if s.kind == segmentLiteral {
			h.text(string(s.text))
		} else {
			h.segments = append(h.segments, s)
		}
	}
}
