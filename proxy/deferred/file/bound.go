package file

import (
	"time"

	"weir/proxy/deferred"
)

// Due returns when the first entry of e's line is due, or zero if the line is empty.
func (x *Index) Due(e *deferred.Entry) time.Time {
	n := x.findLine(e)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(x.items.at(x.lines.at(n).head).Wake)
}

// EntrySizes are what determines, beside an Index, whether there is room for an entry, in bytes.
type EntrySizes struct {
	Entry int64
	Kept  int64 // of the final entries of its client
}

// Bound returns the first bound that p, with the given sizes, would exceed.
func (x *Index) Bound(limits *deferred.Limits, p *deferred.PutRequest, sizes EntrySizes) deferred.ExceededBound {
	e, size := &p.Entry, sizes.Entry
	switch {
	case p.Follows:
	case x.Open >= limits.Entries:
		return deferred.BoundEntries
	case x.Bytes+size > limits.Bytes:
		return deferred.BoundBytes
	}
	var most portion
	most.entries, most.bytes = limits.ShareMax()
	if n := x.findClient(e.Client()); n != 0 {
		if c := x.clients.at(n); most.exceeded(c.entries, c.bytes+sizes.Kept+size) {
			return deferred.BoundShare
		}
	}
	n := x.findLine(e)
	if n == 0 {
		return deferred.NoBound
	}
	l := x.lines.at(n)
	switch {
	case p.PerKey > 0 && int(l.entries) >= p.PerKey:
		return deferred.BoundLine
	case l.keyed && most.exceeded(l.entries, l.bytes+size):
		return deferred.BoundShare
	}
	return deferred.NoBound
}

// A portion is the maximum of one client or one line.
type portion struct{ entries, bytes int64 }

// exceeded reports whether a client or line that has the given entries, and would have the given
// bytes with another one, exceeds its portion. The first entry is always allowed.
func (p portion) exceeded(entries int32, bytes int64) bool {
	return entries > 0 && (int64(entries) >= p.entries || bytes > p.bytes)
}
