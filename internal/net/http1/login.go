package http1

import "bytes"

// IsConnectionAuth reports whether a field of a request or response authenticates the connection instead of
// one request, or asks for that.
func IsConnectionAuth(f *Field) bool {
	return (f.ID == FieldAuthorization || f.ID == FieldWWWAuthenticate) && authenticatesConnection(f.Value)
}

// authenticatesConnection reports whether v has a challenge or credentials of a scheme that
// authenticates connections.
func authenticatesConnection(v []byte) bool {
	for len(v) > 0 {
		var scheme []byte
		scheme, v = CutUnquoted(v, ',')
		scheme = bytes.TrimSpace(scheme)
		if end := bytes.IndexAny(scheme, " \t"); end >= 0 {
			scheme = scheme[:end]
		}
		if EqualFold(scheme, "ntlm") || EqualFold(scheme, "negotiate") {
			return true
		}
	}
	return false
}
