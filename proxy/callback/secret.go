package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The fields of Standard Webhooks 1.0.0 (github.com/standard-webhooks/standard-webhooks).
const (
	IDField        = "webhook-id"        // of the message, the same in each attempt
	TimestampField = "webhook-timestamp" // of the attempt: seconds since the epoch
	SignatureField = "webhook-signature"
)

// A Secret signs callbacks, so that their receivers know that they are the proxy's.
type Secret []byte

// secretBytesMin is what Standard Webhooks asks for: 192 bits.
const secretBytesMin = 24

// SecretAllowed is what [ParseSecret] takes, for people.
const SecretAllowed = "whsec_ and base64 of at least 24 bytes, such as echo whsec_$(openssl rand -base64 32) makes, or any text of at least 24 characters"

// ParseSecret reads a secret.
func ParseSecret(text string) (Secret, error) {
	key := []byte(text)
	if encoded, ok := strings.CutPrefix(text, "whsec_"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New("has no base64 behind whsec_")
		}
	}
	if len(key) < secretBytesMin {
		return nil, fmt.Errorf("has %d bytes", len(key))
	}
	return key, nil
}

// Sign is the signature of a message that is sent at a time.
func (s Secret) Sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
