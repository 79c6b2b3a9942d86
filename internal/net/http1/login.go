package http1

import "bytes"

// IsConnectionAuth reports whether a field, of a request or a response, authenticates the connection and
// not only a request, or offers to.
func IsConnectionAuth(f *Field) bool {
	return (f.ID == FieldAuthorization || f.ID == FieldWWWAuthenticate) && authenticatesConnection(f.Value)
}

// authenticatesConnection reports whether v has a challenge or credentials of a scheme that
// authenticates connections.
func authenticatesConnection(v []byte) bool {
	for ; len(v) > 0; v = nextChallenge(v) {
		scheme := bytes.TrimLeft(v, " \t")
		if end := bytes.IndexAny(scheme, " \t,"); end >= 0 {
			scheme = scheme[:end]
		}
		if EqualFold(scheme, "ntlm") || EqualFold(scheme, "negotiate") {
			return true
		}
	}
	return false
}

// nextChallenge returns what follows the first comma that is not in a quoted string (RFC 9110 5.6.4).
func nextChallenge(b []byte) []byte {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch {
		case quoted && b[i] == '\\':
			i++
		case b[i] == '"':
			quoted = !quoted
		case b[i] == ',' && !quoted:
			return b[i+1:]
		}
	}
	return nil
}
