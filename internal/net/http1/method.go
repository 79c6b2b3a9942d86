package http1

// A Method is a request method. Head.MethodText has the text of methods that have no constant
// here.
type Method uint8

// The methods of RFC 9110 9.3 and RFC 5789. Method names are case-sensitive
// (RFC 9110 9.1).
const (
	MethodOther Method = iota
	GET
	HEAD
	POST
	PUT
	DELETE
	CONNECT
	OPTIONS
	TRACE
	PATCH
)

var methodNames = [...]string{"OTHER", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// String returns the method as in a request line, or "OTHER" for MethodOther.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return methodNames[MethodOther]
}

// Idempotent reports whether repeating the request has the same effect as sending it once (RFC
// 9110 9.2.2). It is false for MethodOther, which may be any method.
func (m Method) Idempotent() bool {
	switch m {
	case GET, HEAD, PUT, DELETE, OPTIONS, TRACE:
		return true
	}
	return false
}

// MethodOf returns the Method with that name, or MethodOther if it has no constant.
func MethodOf(name []byte) Method {
	for m := GET; int(m) < len(methodNames); m++ {
		if string(name) == methodNames[m] {
			return m
		}
	}
	return MethodOther
}
