package refusal

import (
	"bytes"

	"weir/internal/net/http1"
)

// HTTPOnTLSPort returns the answer for a client that speaks HTTP without TLS to a port with TLS,
// which first shows: the first bytes of a request line.
func HTTPOnTLSPort(first [5]byte) []byte {
	method, _, _ := bytes.Cut(first[:], []byte(" "))
	for _, c := range method {
		if c < 'A' || c > 'Z' {
			return nil
		}
	}
	return http1.AppendLocalResponse(nil, http1.LocalResponse{Status: 400, ContentType: "application/json", Close: true,
		Body: []byte(`{"error":"this port requires TLS: the request was sent without"}` + "\n")})
}
