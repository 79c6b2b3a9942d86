package refusal

import (
	"bytes"

	"weir/internal/http1"
)

// Plain is what a client is answered that speaks HTTP without TLS to a
// port with TLS, as first says: the beginning of a request line.
func Plain(first [5]byte) []byte {
	method, _, _ := bytes.Cut(first[:], []byte(" "))
	for _, c := range method {
		if c < 'A' || c > 'Z' {
			return nil
		}
	}
	return http1.AppendAnswer(nil, http1.Answer{Status: 400, ContentType: "application/json", Close: true,
		Body: []byte(`{"error":"this port speaks TLS: the request was sent without"}` + "\n")})
}
