package http1

// The methods here fill a Head from a message whose parts are received one by one, as those of
// HTTP/2. The rules are those of a Reader: what a head may contain does not depend on the version.
// The order of the calls is Begin; Add for each field; FinishRequest or FinishResponse.

// Begin empties h. Its version is HTTP/1.1, as the one in which a forwarder may write it.
func (h *Head) Begin() {
	*h = Head{Fields: h.Fields[:0], Minor: 1, Length: -1, KeepAlive: true}
}

// Add adds a field, whose name must be in lower case (RFC 9113 8.2.1), and returns its ID. It reports
// false and adds nothing if the name is not a token in lower case, or the value has control
// characters other than a horizontal tab, or whitespace around it.
func (h *Head) Add(name, value []byte) (FieldID, bool) {
	id, class := lowerFieldIDOf(name)
	if class >= classEnd || controlAt(value) < len(value) {
		return FieldOther, false
	}
	if n := len(value); n > 0 && (isBlank(value[0]) || isBlank(value[n-1])) {
		return FieldOther, false
	}
	*h.grow() = Field{Name: name, Value: value, ID: id, Hop: id.Hop(), AmbiguousName: class != classWord}
	return id, true
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// FinishRequest evaluates a head of which MethodText, Target and Fields are set. The host is that of
// its one Host field. ended says that no body follows; a body of unknown length gets BodyChunked.
// The error is an *Error.
func (h *Head) FinishRequest(l *Limits, ended bool) error {
	if f := h.finishRequest(l, ended); f != noFault {
		return &requestErrors[f]
	}
	return nil
}

func (h *Head) finishRequest(l *Limits, ended bool) fault {
	if f := h.checkSizeOf(l, false); f != noFault {
		return f
	}
	if rest, n := skipToken(h.MethodText); n == 0 || len(rest) > 0 {
		return faultMethod
	}
	h.Method = MethodOf(h.MethodText)
	n, has := targetLen(h.Target)
	if n == 0 || n < len(h.Target) {
		return faultTarget
	}
	if f := target(h, has); f != noFault {
		return f
	}
	k := facts{framed: framed{minor: h.Minor}}
	k.noteAll(h)
	if f := k.requestFacts(h); f != noFault {
		return f
	}
	var f fault
	if h.Framing, h.Length, f = k.framing(); f == noFault && h.Framing == BodyNone && !ended {
		h.Framing = BodyChunked
	}
	return f
}

// FinishResponse evaluates a head of which Status, from StatusCode, and Fields are set. method is
// that of the request. ended says that no body follows; a body of unknown length gets BodyChunked,
// one that is empty although it might not be BodyLength. The error is an *Error.
func (h *Head) FinishResponse(l *Limits, method Method, ended bool) error {
	if f := h.checkSizeOf(l, true); f != noFault {
		return &responseErrors[f]
	}
	k := facts{framed: framed{response: true, method: method, status: h.Status, minor: h.Minor}}
	k.noteAll(h)
	kind, length, f := k.framing()
	switch {
	case f != noFault:
		return &responseErrors[f]
	case kind == BodyUntilClose && ended:
		kind, length = BodyLength, 0
	case kind == BodyUntilClose:
		kind = BodyChunked
	}
	h.Framing, h.Length = kind, length
	return nil
}

// checkSizeOf checks the size that the head would have in HTTP/1.1.
func (h *Head) checkSizeOf(l *Limits, response bool) fault {
	n := len("HTTP/1.1 200 \r\n\r\n")
	if !response {
		n = len(h.MethodText) + len(h.Target) + len("  HTTP/1.1\r\n\r\n")
	}
	for i := range h.Fields {
		n += len(h.Fields[i].Name) + len(": \r\n") + len(h.Fields[i].Value)
	}
	bytesMax, fieldsMax := l.Bounds()
	return h.checkSize(n, bytesMax, fieldsMax, response)
}
