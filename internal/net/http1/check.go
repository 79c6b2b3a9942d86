package http1

// Check returns what a proxy at the edge must refuse although the request is
// well-formed, as an *Error with the status to answer:
//
//	CONNECT and TRACE                               405  RFC 9110 9.3.6, 9.3.8
//	an absolute-form target for a host other than
//	that of the Host field                          400  RFC 9112 3.2.2
//	an expectation other than 100-continue          417  RFC 9110 10.1.1
//
// RFC 9112 prefers the target's authority to a differing Host field, but servers
// behind the proxy may look at either.
func (h *Head) Check() error {
	switch {
	case h.Method == CONNECT || h.Method == TRACE:
		return &requestErrors[faultMethodRefused]
	case h.Form == FormAbsolute && !h.hostsAgree():
		return &requestErrors[faultHostMismatch]
	case h.Expect == ExpectOther:
		return &requestErrors[faultExpectation]
	}
	return nil
}

// hostsAgree reports whether the authority of an absolute-form target and the Host field have the
// same host and port.
func (h *Head) hostsAgree() bool {
	field, ok := h.Value(FieldHost)
	if !ok {
		return true
	}
	defaultPort := "80"
	if h.Target[len("http")]|0x20 == 's' {
		defaultPort = "443"
	}
	return SameHost(h.Host, field, defaultPort)
}

// SameHost reports whether a and b have the same host and port. A host without a port has
// defaultPort (RFC 3986 6.2.3).
func SameHost(a, b []byte, defaultPort string) bool {
	aName, aPort := splitPort(a, defaultPort)
	bName, bPort := splitPort(b, defaultPort)
	return EqualFold(aName, bName) && string(aPort) == string(bPort)
}

// splitPort splits a valid host into name and port. port is empty if it is missing or equal to
// defaultPort.
func splitPort(host []byte, defaultPort string) (name, port []byte) {
	i := len(host)
	for i > 0 && isDigit(host[i-1]) {
		i--
	}
	if i == 0 || host[i-1] != ':' {
		return host, nil
	}
	name, port = host[:i-1], host[i:]
	if string(port) == defaultPort {
		port = nil
	}
	return name, port
}

// CheckSwitch checks that a 101 response confirms its Upgrade field by the Connection field and
// names only protocols of asked, the request's Upgrade field as forwarded (RFC 9110 7.8, 15.2.2).
// The error is an *Error with status 502.
func (h *Head) CheckSwitch(asked []byte) error {
	protocols, _ := h.Value(FieldUpgrade)
	if !h.Upgrade || asked == nil {
		return &responseErrors[faultSwitch]
	}
	for protocols != nil {
		var protocol []byte
		if protocol, protocols = cutList(protocols); !ListHas(asked, protocol) {
			return &responseErrors[faultSwitch]
		}
	}
	return nil
}

// ListHas reports whether element is in a comma-separated list, ignoring case.
func ListHas(list, element []byte) bool {
	for list != nil {
		var e []byte
		if e, list = cutList(list); EqualFold(e, element) {
			return true
		}
	}
	return false
}
