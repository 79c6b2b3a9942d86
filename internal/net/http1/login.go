package http1

import "bytes"

// IsConnectionAuth reports whether a field, of a request or a response, authenticates the connection and
// not only a request, or offers to. A quoted comma may cause a false positive, which is harmless.
func IsConnectionAuth(f *Field) bool {
	return (f.ID == FieldAuthorization || f.ID == FieldWWWAuthenticate) && authenticatesConnection(f.Value)
}

// authenticatesConnection reports whether v has a challenge or credentials of a scheme that
// authenticates connections.
func authenticatesConnection(v []byte) bool {
	for challenge := range bytes.SplitSeq(v, []byte(",")) {
		scheme := bytes.TrimSpace(challenge)
		if end := bytes.IndexAny(scheme, " \t"); end >= 0 {
			scheme = scheme[:end]
		}
		if EqualFold(scheme, "ntlm") || EqualFold(scheme, "negotiate") {
			return true
		}
	}
	return false
}
