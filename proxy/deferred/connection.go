package deferred

import (
	"bytes"

	"weir/internal/net/http1"
)

// AppendConnection appends a Connection field to the head of a request that is stored. It lists
// the names that the Connection fields of h list, if the request has a field of that name that is
// stored, which keeps reports. Rules match these fields again, and the delivery does not forward
// them. Each name is listed once, so the list is not longer than what was received.
func AppendConnection(dst []byte, h *http1.Head, keeps func(http1.FieldID) bool) []byte {
	const connection = "Connection: "
	list := len(dst) + len(connection)
	for i := range h.Fields {
		f := &h.Fields[i]
		switch {
		case !f.Hop || !keeps(f.ID):
		case len(dst) < list:
			dst = append(append(dst, connection...), f.Name...)
		case !isListed(dst[list:], f.Name):
			dst = append(append(dst, ','), f.Name...)
		}
	}
	if len(dst) < list {
		return dst
	}
	return append(dst, "\r\n"...)
}

// isListed reports whether a name is an element of a list that commas separate.
func isListed(list, name []byte) bool {
	for len(list) > 0 {
		var one []byte
		if one, list, _ = bytes.Cut(list, []byte(",")); http1.EqualFold(one, name) {
			return true
		}
	}
	return false
}
