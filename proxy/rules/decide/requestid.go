package decide

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// RequestIDMax bounds the request ids that are accepted, in bytes.
const RequestIDMax = 64

// ValidRequestID reports whether an id consists of characters without a special meaning, so
// that it can be written anywhere.
func ValidRequestID(id []byte) bool {
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' && c != '.' &&
			c != '=' && c != ':' && c != '@' {
			return false
		}
	}
	return len(id) > 0 && len(id) <= RequestIDMax
}

// AppendRequestID appends a new id: 128 random bits.
func AppendRequestID(random *rand.ChaCha8, dst []byte) []byte {
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:8], random.Uint64())
	binary.LittleEndian.PutUint64(id[8:], random.Uint64())
	return hex.AppendEncode(dst, id[:])
}
