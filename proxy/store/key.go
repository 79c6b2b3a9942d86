package store

import (
	"crypto/sha256"
	"strconv"
)

const (
	// PartBytesMax is the length up to which rule ids and keys are stored unchanged.
	// Longer ones are replaced by a digest, so that no client can fill the memory of a
	// store with long keys.
	PartBytesMax = 128
	// KeyBytesMax is the length of the longest name that AppendKey appends.
	KeyBytesMax = 2 * (len("128:") + PartBytesMax)
)

// AppendKey appends the name under which stores keep the state of key within
// rule, at most [KeyBytesMax] bytes:
//
//	per-partner, acme → 11:per-partner4:acme
//
// Different pairs of rule and key have different names, whatever bytes they contain, because each
// part is preceded by its length. A part longer than [PartBytesMax] becomes a # and its SHA-256.
// Under one name a store keeps a state for each kind of limits: see limit.Kind.
func AppendKey(dst []byte, rule string, key []byte) []byte {
	dst = AppendRule(dst, rule)
	if len(key) > PartBytesMax {
		return appendDigest(dst, key)
	}
	return append(appendLength(dst, len(key)), key...)
}

// AppendRule appends the common prefix of the names of all keys of rule. Followed by a
// byte that is neither a digit nor #, it is a name that no key has.
func AppendRule(dst []byte, rule string) []byte {
	if len(rule) > PartBytesMax {
		return appendDigest(dst, []byte(rule))
	}
	return append(appendLength(dst, len(rule)), rule...)
}

func appendLength(dst []byte, n int) []byte {
	if n < 10 {
		return append(dst, '0'+byte(n), ':')
	}
	return append(strconv.AppendUint(dst, uint64(n), 10), ':')
}

func appendDigest(dst, part []byte) []byte {
	sum := sha256.Sum256(part)
	return append(append(dst, '#'), sum[:]...)
}
