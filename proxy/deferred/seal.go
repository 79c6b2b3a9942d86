package deferred

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"weir/internal/net/share"
)

// SealKeyBytes is the length of the key of a [Sealer].
const SealKeyBytes = 32

// ErrWrongKey is the error of a value that was not encrypted with the key.
var ErrWrongKey = errors.New("it is not encrypted with this key")

// A Sealer encrypts values with AES-256-GCM; without a key it leaves them unchanged. A value that
// was encrypted under one name cannot be decrypted under another.
//
// Immutable after NewSealer.
type Sealer struct {
	aead cipher.AEAD
	key  []byte // for digests
}

// NewSealer returns a sealer with the given key. If the key is empty it leaves values unchanged.
func NewSealer(key []byte) (Sealer, error) {
	if len(key) == 0 {
		return Sealer{}, nil
	}
	if len(key) != SealKeyBytes {
		return Sealer{}, fmt.Errorf("the key must be %d bytes, is %d", SealKeyBytes, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Sealer{}, err
	}
	aead, err := cipher.NewGCM(block)
	derived := sha256.Sum256(append([]byte("weir digests "), key...))
	return Sealer{aead, derived[:]}, err
}

// Encrypts reports whether there is a key.
func (s Sealer) Encrypts() bool { return s.aead != nil }

// Seal returns a value in the form in which it is stored.
func (s Sealer) Seal(plain []byte, name []byte) []byte {
	if s.aead == nil {
		return plain
	}
	out := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	_, _ = rand.Read(out) // never fails
	return s.aead.Seal(out, out, plain, name)
}

// Open is the inverse of Seal. The error is ErrWrongKey.
func (s Sealer) Open(value []byte, name []byte) ([]byte, error) {
	if s.aead == nil {
		return value, nil
	}
	n := s.aead.NonceSize()
	if len(value) < n {
		return nil, ErrWrongKey
	}
	plain, err := s.aead.Open(nil, value[:n], value[n:], name)
	if err != nil {
		return nil, ErrWrongKey
	}
	return plain, nil
}

// SealPart returns a part of an entry in the form in which it is stored: some of the entry's
// fields, bound to its ID and to the name of the part.
func (s Sealer) SealPart(name string, id ID, part *Entry) []byte {
	return s.Seal(AppendEntry(nil, part), append([]byte(name), id[:]...))
}

// OpenPart is the inverse of SealPart.
func (s Sealer) OpenPart(name string, id ID, value []byte) (*Entry, error) {
	plain, err := s.Open(value, append([]byte(name), id[:]...))
	if err != nil {
		return nil, err
	}
	return ParseEntry(plain)
}

// A KeyedDigest represents a text in tables and indexes. The zero KeyedDigest means that there is none.
type KeyedDigest [16]byte

// EntryDigests are the parts of an entry that a queue compares.
type EntryDigests struct {
	LineKey     KeyedDigest
	Client      KeyedDigest // zero: the entry is not from a client
	Scope       KeyedDigest // zero: it has no Idempotency-Key; then Fingerprint is zero too
	Fingerprint KeyedDigest
}

// Client returns the name of an entry's client.
func (s Sealer) Client(e *Entry) KeyedDigest {
	c := e.Client()
	if c == (share.Client{}) {
		return KeyedDigest{}
	}
	network := c.Addr().As16()
	return s.Digest("client", string(network[:]))
}

// Scope returns the name of an entry's Scope.
func (s Sealer) Scope(scope SHA256) KeyedDigest { return s.Digest("scope", string(scope[:])) }

// Digests returns the digests of an entry.
func (s Sealer) Digests(e *Entry) (n EntryDigests) {
	n.LineKey = s.Digest("line", e.Rule, e.LineKey)
	n.Client = s.Client(e)
	if e.Keyed() {
		n.Scope, n.Fingerprint = s.Scope(e.Scope), s.Digest("print", string(e.Fingerprint[:]))
	}
	return n
}

// Digest returns a number for texts that are compared but never read back, such as the keys of
// rules. Without the key it is not possible to find a text by trying.
func (s Sealer) Digest(texts ...string) (digest KeyedDigest) {
	h := hmac.New(sha256.New, s.key)
	for _, text := range texts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(text)))
		h.Write(n[:])
		h.Write([]byte(text))
	}
	copy(digest[:], h.Sum(nil))
	return digest
}
