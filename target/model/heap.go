package model

import "time"

// An ending is when the request in a place will be served.
type ending struct {
	at    time.Duration
	seq   uint64 // of equal times the one that started first ends first
	place int32
}

func (e ending) before(o ending) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// An endHeap is a binary heap of endings, the earliest on top. With constant
// service times each new ending is the latest, and push costs one comparison.
//
// Owned by its loop.
type endHeap struct {
	ends []ending
	seq  uint64
}

// first returns the earliest end.
func (h *endHeap) first() (time.Duration, bool) {
	if len(h.ends) == 0 {
		return 0, false
	}
	return h.ends[0].at, true
}

func (h *endHeap) push(at time.Duration, place int32) {
	h.seq++
	h.ends = append(h.ends, ending{at: at, seq: h.seq, place: place})
	for i := len(h.ends) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.ends[i].before(h.ends[parent]) {
			return
		}
		h.ends[i], h.ends[parent] = h.ends[parent], h.ends[i]
		i = parent
	}
}

// pop takes the earliest out and returns its place; the heap must not be empty.
func (h *endHeap) pop() int32 {
	top := h.ends[0].place
	last := len(h.ends) - 1
	h.ends[0] = h.ends[last]
	h.ends = h.ends[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && h.ends[child+1].before(h.ends[child]) {
			child++
		}
		if !h.ends[child].before(h.ends[i]) {
			return top
		}
		h.ends[i], h.ends[child] = h.ends[child], h.ends[i]
		i = child
	}
}
