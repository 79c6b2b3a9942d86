package http1

// A head is nearly always there as a whole, and read at once. If it is not, the
// Reader remembers where the first incomplete line begins and checks from there line
// by line; after the empty line the whole head is read once more. However the input
// is split the verdict is the same, as both ways agree on the order of faults:
//
//  1. control characters and the limits on bytes, by position;
//  2. what else is wrong with a line, at its end, then the limit on fields;
//  3. what is wrong with the head as a whole, at the empty line, its size first.

// head continues to read a head.
func (r *Reader) head(b []byte, h *Head) (Event, error) {
	skipped := 0
	if r.seen == 0 && !r.response {
		var f fault
		if skipped, f = r.skipEmptyLines(b); f != noFault {
			return r.fail(f)
		}
		b = b[skipped:]
		if len(b) == 1 && b[0] == '\r' {
			return Event{N: int32(skipped)}, nil // perhaps another empty line
		}
	}
	if len(b) == 0 {
		return Event{N: int32(skipped)}, nil
	}
	n, f := 0, noFault
	if r.seen == 0 {
		n, f = r.wholeHead(b, h)
	} else {
		n, f = r.moreOfHead(b, h)
	}
	if f != noFault {
		return r.fail(f)
	}
	if n == 0 {
		return Event{N: int32(skipped)}, nil
	}
	if f = h.checkSize(n, r.headBytesMax, r.fieldsMax, r.response); f == noFault {
		f = r.headDone(h)
	}
	if f != noFault {
		return r.fail(f)
	}
	return Event{Kind: HeadDone, N: int32(skipped + n)}, nil
}

// skipEmptyLines counts the bytes of the empty lines before a request line
// (RFC 9112 2.2).
func (r *Reader) skipEmptyLines(b []byte) (n int, f fault) {
	for len(b) >= n+2 && b[n] == '\r' && b[n+1] == '\n' {
		if r.emptyLines++; r.emptyLines > emptyLinesMax {
			return 0, faultTooManyEmptyLines
		}
		n += 2
	}
	return n, noFault
}

// wholeHead parses a head that begins at b[0] and returns its length, or 0 if it is not complete.
func (r *Reader) wholeHead(b []byte, h *Head) (n int, f fault) {
	h.Fields = h.Fields[:0]
	rest := b[:min(len(b), int(r.headBytesMax))]
	if r.response {
		n, _ = statusLine(rest, h)
	} else {
		n, _ = requestLine(rest, h)
	}
	if n == 0 {
		return 0, r.unfinished(b, 0, h)
	}
	at, rest := n, rest[n:]
	for count := uint16(0); ; count++ {
		if len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			return at + 2, noFault
		}
		if n, _ = fieldLine(rest, h.grow()); n == 0 {
			r.fields = count
			return 0, r.unfinished(b, at, h)
		}
		if count == r.fieldsMax {
			return 0, faultTooManyFields
		}
		at, rest = at+n, rest[n:]
	}
}

// grow adds a field to h.Fields, which the caller must fill in.
func (h *Head) grow() *Field {
	n := len(h.Fields)
	if n == cap(h.Fields) {
		h.Fields = append(h.Fields, Field{})
	}
	h.Fields = h.Fields[:n+1]
	return &h.Fields[n]
}

// lineLimit returns the maximum length of the line at b[at:] of a head, and the fault of a longer
// one.
func (r *Reader) lineLimit(at int) (limit int, beyond fault) {
	if at == 0 && !r.response {
		return int(r.headBytesMax), faultTargetTooLong
	}
	return int(r.headBytesMax) - at, faultHeadTooLarge
}

// unfinished handles the line at b[at:], which is incomplete, too long or not well-formed. An incomplete
// line is recorded; for the others the fault is returned.
func (r *Reader) unfinished(b []byte, at int, h *Head) fault {
	limit, beyond := r.lineLimit(at)
	n, f := scanLine(b[at:], 0, limit, beyond)
	if f != noFault {
		return f
	}
	if n > 0 {
		return r.checkLine(b[at:at+n], at, h)
	}
	r.lineAt, r.seen = int32(at), int32(len(b))
	return noFault
}

// moreOfHead checks the lines that have become complete since the last call, and parses the head
// if its empty line is among them.
func (r *Reader) moreOfHead(b []byte, h *Head) (n int, f fault) {
	for {
		at := int(r.lineAt)
		limit, beyond := r.lineLimit(at)
		n, f = scanLine(b[at:], int(r.seen)-at, limit, beyond)
		if f != noFault {
			return 0, f
		}
		if n == 0 {
			r.seen = int32(len(b))
			return 0, noFault
		}
		if at > 0 && n == len("\r\n") {
			return r.wholeHead(b, h)
		}
		if f = r.checkLine(b[at:at+n], at, h); f != noFault {
			return 0, f
		}
		if at > 0 {
			if r.fields++; r.fields > r.fieldsMax {
				return 0, faultTooManyFields
			}
		}
		r.lineAt = int32(at + n)
		r.seen = r.lineAt
	}
}

// checkLine returns the fault of a complete line of a head, which has no control characters and
// begins at the head's byte at.
func (r *Reader) checkLine(line []byte, at int, h *Head) (f fault) {
	switch {
	case at > 0:
		var field Field
		_, f = fieldLine(line, &field)
	case r.response:
		_, f = statusLine(line, h)
	default:
		_, f = requestLine(line, h)
	}
	return f
}

// headDone evaluates a complete head and prepares to read its body.
func (r *Reader) headDone(h *Head) fault {
	k := facts{framed: framed{response: r.response, method: r.method, status: h.Status, minor: h.Minor}}
	k.noteAll(h)
	if k.connections > 0 {
		if f := k.connectionOptions(h.Fields); f != noFault {
			return f
		}
	}
	if r.response {
		h.clearRequest()
	} else if f := k.requestFacts(h); f != noFault {
		return f
	}
	var f fault
	if h.Framing, h.Length, f = k.framing(); f != noFault {
		return f
	}
	h.Upgrade = k.upgradeOffered && k.upgrade && h.Minor > 0
	h.KeepAlive = !k.closes && (h.Minor > 0 || k.keepsAlive) && h.Framing != BodyUntilClose
	return r.beginBody(h)
}

// requestFacts sets the facts that only requests have.
func (k *facts) requestFacts(h *Head) fault {
	h.Status, h.Reason = 0, nil
	switch {
	case k.hosts > 1:
		return faultHostTwice
	case k.hosts == 0 && h.Minor > 0:
		return faultHostMissing
	case k.hosts == 1 && !validHost(k.host):
		return faultHost
	case h.Host == nil:
		h.Host = k.host
	}
	h.Expect = ExpectNone
	if h.Minor > 0 {
		h.Expect = k.expectation()
	}
	return noFault
}

// clearRequest clears what an earlier use for a request has set.
func (h *Head) clearRequest() {
	if h.MethodText == nil {
		return
	}
	h.Method, h.MethodText, h.Target, h.Path, h.Query = MethodOther, nil, nil, nil, nil
	h.Form, h.Host, h.Expect = FormOrigin, nil, ExpectNone
}

// beginBody prepares to read what follows the head.
func (r *Reader) beginBody(h *Head) fault {
	r.beginHead()
	switch {
	case r.response && h.Status < 200 && h.Status != 101:
		if r.interims++; r.interims > interimsMax {
			return faultTooManyInterims
		}
	case r.response && (h.Status == 101 || r.method == CONNECT && h.Status < 300):
		r.state = stateUpgraded
		h.KeepAlive = false
	case h.Framing == BodyChunked:
		r.state = stateChunkLine
	case h.Framing == BodyUntilClose:
		r.state = stateUntilClose
	case h.Framing == BodyLength && h.Length > 0:
		r.state, r.left = stateLength, h.Length
	default:
		r.state = stateEnd
	}
	return noFault
}
