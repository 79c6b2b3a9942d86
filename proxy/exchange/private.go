package exchange

import (
	"bytes"

	"weir/internal/http1"
)

// NTLM and Negotiate authenticate a connection, not a request: a target takes
// what comes later on the same connection for the same user's. So from the
// first exchange of that kind the upstream connections of the client are
// private: they serve no other, the next request goes over the one that served
// the last, and it ends with the client's connection. The fields of proxies' own
// authentication play no part: they are never forwarded.

// noticeLogin has the client's upstream connections be private when f, a
// field of a request or an answer, authenticates a connection or offers to.
func (x *Exchange) noticeLogin(f *http1.Field) {
	if (f.ID == http1.FieldAuthorization || f.ID == http1.FieldWWWAuthenticate) && authenticatesConnection(f.Value) {
		x.Private = true
	}
}

// authenticatesConnection reports whether one of the challenges, or the
// credentials, in v are of a scheme that authenticates connections. A quoted
// comma may make it see one too many, which does no harm.
func authenticatesConnection(v []byte) bool {
	for challenge := range bytes.SplitSeq(v, []byte(",")) {
		scheme := bytes.TrimSpace(challenge)
		if end := bytes.IndexAny(scheme, " \t"); end >= 0 {
			scheme = scheme[:end]
		}
		if http1.EqualFold(scheme, "ntlm") || http1.EqualFold(scheme, "negotiate") {
			return true
		}
	}
	return false
}
