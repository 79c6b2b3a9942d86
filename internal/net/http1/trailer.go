package http1

// trailers reads the trailer section at b[n:] (RFC 9112 7.1.2), as a whole, with the rules and bounds of a
// head. Its fields are never merged into a head, whatever their names.
func (r *Reader) trailers(b []byte, n int) (Event, error) {
	section := b[n:]
	for {
		at := int(r.lineAt)
		size, f := scanLine(section[at:], int(r.seen)-at, int(r.headBytesMax)-at, faultTrailerTooLarge)
		if f != noFault {
			return r.fail(f)
		}
		if size == 0 {
			r.seen = int32(len(section))
			return Event{N: int32(n)}, nil
		}
		if size == len("\r\n") {
			ev := Event{Kind: End, N: int32(n + at + size), Trailer: at > 0}
			if at > 0 && r.fields <= r.fieldsMax { // a recipient may drop trailers (RFC 9110 6.5.1), but not some of them
				ev.Data = section[:at:at]
			}
			r.begin()
			return ev, nil
		}
		var line Field
		if _, f = fieldLine(section[at:at+size], &line); f != noFault {
			return r.fail(f)
		}
		r.fields = max(r.fields, r.fields+1) // 0 is no successor
		r.lineAt = int32(at + size)
		r.seen = r.lineAt
	}
}

// notInTrailers are the names, in lower case, of fields without an ID that have no meaning in trailers.
var notInTrailers = [...]string{"age", "authentication-info", "cache-control", "content-disposition",
	"content-language", "content-location", "content-range", "expires", "pragma", "range", "realm", "vary",
	"x-http-method", "x-http-method-override", "x-method-override"}

// neverTrailers are how the names of such fields begin.
var neverTrailers = [...]string{"accept-", "access-control-", "if-", "proxy-"}

// MayBeTrailer reports whether the field may be passed on in a trailer section. Fields with an ID, and other
// fields for framing, routing, authentication, controls and content, may not: they must be known before the
// body (RFC 9110 6.5.1).
func (f *Field) MayBeTrailer() bool {
	if f.ID != FieldOther || f.Hop {
		return false
	}
	for _, start := range neverTrailers {
		if len(f.Name) > len(start) && EqualFold(f.Name[:len(start)], start) {
			return false
		}
	}
	for _, name := range notInTrailers {
		if EqualFold(f.Name, name) {
			return false
		}
	}
	return true
}

// AppendHopNames appends a comma-separated list of the names in the Connection fields, without those that
// are never passed on in trailers.
func (h *Head) AppendHopNames(dst []byte) []byte {
	if !h.MayHave(FieldConnection) {
		return dst
	}
	for i := range h.Fields {
		if h.Fields[i].ID != FieldConnection {
			continue
		}
		for rest := h.Fields[i].Value; rest != nil; {
			var name []byte
			if name, rest = cutList(rest); len(name) == 0 || EqualFold(name, "close") {
				continue
			}
			if id, _ := fieldIDOf(name); id == FieldOther {
				dst = append(append(dst, name...), ',')
			}
		}
	}
	return dst
}

// TakesTrailers reports whether the sender of a request accepts trailers in its response (RFC 9110 10.1.4).
func (h *Head) TakesTrailers() bool {
	if !h.MayHave(FieldTE) {
		return false
	}
	for i := range h.Fields {
		if f := &h.Fields[i]; f.ID == FieldTE && h.Minor > 0 && ListHas(f.Value, []byte("trailers")) {
			return true
		}
	}
	return false
}
