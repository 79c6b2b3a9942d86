package file

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// errSealed is the error of bytes that were not written with the key.
var errSealed = errors.New("it is not encrypted with this key")

// A sealer encrypts values with AES-256-GCM, or leaves them as they are without a key. What is
// written under one name cannot be read under another.
//
// Immutable after newSealer.
type sealer struct{ aead cipher.AEAD }

func newSealer(key []byte) (sealer, error) {
	if len(key) == 0 {
		return sealer{}, nil
	}
	if len(key) != KeyBytes {
		return sealer{}, fmt.Errorf("the key must be %d bytes, is %d", KeyBytes, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCM(block)
	return sealer{aead}, err
}

// seal returns a value as it is written.
func (s sealer) seal(plain []byte, name []byte) []byte {
	if s.aead == nil {
		return plain
	}
	out := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	_, _ = rand.Read(out) // never fails
	return s.aead.Seal(out, out, plain, name)
}

// open is the inverse of seal.
func (s sealer) open(value []byte, name []byte) ([]byte, error) {
	if s.aead == nil {
		return value, nil
	}
	n := s.aead.NonceSize()
	if len(value) < n {
		return nil, errSealed
	}
	plain, err := s.aead.Open(nil, value[:n], value[n:], name)
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}
