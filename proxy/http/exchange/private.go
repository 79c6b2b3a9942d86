package exchange

import "weir/internal/net/http1"

// NTLM and Negotiate authenticate a connection, not a request: a target attributes later
// requests on the same connection to the same user. So from the first such exchange on, the
// client's upstream connection is private: it serves no other client, the client's next
// request uses it again, and it closes with the client's connection. The fields of
// proxy authentication do not matter, because they are never forwarded.

// noticeLogin makes the client's upstream connections private if f, a field of a request or
// an answer, authenticates a connection or offers to.
func (x *Exchange) noticeLogin(f *http1.Field) {
	if http1.OffersLogin(f) {
		x.Private = true
	}
}
