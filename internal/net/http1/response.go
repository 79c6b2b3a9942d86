package http1

// statusLine parses the status line at the beginning of b into h and returns its length with the
// CRLF (RFC 9112 4), or 0 if it is not well-formed. The fault is valid only if b is one complete
// line. The space after the status code may be missing if there is no reason.
func statusLine(b []byte, h *Head) (n int, f fault) {
	const before = len("HTTP/1.1 200")
	if len(b) < before {
		return 0, faultStatusLine
	}
	if f = protocol(b, h); f != noFault {
		return 0, f
	}
	if b[8] != ' ' {
		return 0, faultStatusLine
	}
	if h.Status = StatusCode(b[9:before]); h.Status == 0 {
		return 0, faultStatusCode
	}
	end := before + controlAt(b[before:])
	if end+1 >= len(b) || b[end] != '\r' || b[end+1] != '\n' {
		return 0, faultStatusLine
	}
	h.Reason = b[before:end:end]
	if end > before {
		if b[before] != ' ' {
			return 0, faultStatusCode
		}
		h.Reason = b[before+1 : end : end]
	}
	return end + 2, noFault
}

// StatusCode returns the status code that b consists of, from 100 to 599, or 0 if it is none
// (RFC 9110 15).
func StatusCode(b []byte) int {
	if len(b) != len("200") || b[0] < '1' || b[0] > '5' || !isDigit(b[1]) || !isDigit(b[2]) {
		return 0
	}
	return int(b[0]-'0')*100 + int(b[1]-'0')*10 + int(b[2]-'0')
}
