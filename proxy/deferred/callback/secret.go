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
	IDField        = "webhook-id"        // id of the message, the same in each attempt
	TimestampField = "webhook-timestamp" // time of the attempt, in seconds since the epoch
	SignatureField = "webhook-signature"
)

// A Secret signs callbacks, so that their receivers can authenticate the proxy.
type Secret []byte

// secretBytesMin is required by Standard Webhooks: 192 bits.
const secretBytesMin = 24

// SecretSyntax describes the text that [ParseSecret] accepts.
const SecretSyntax = "whsec_ and base64 of at least 24 bytes, such as echo whsec_$(openssl rand -base64 32) makes, " +
	"or any text of at least 24 characters"

// ParseSecret parses a secret.
func ParseSecret(text string) (Secret, error) {
	key := []byte(text)
	if encoded, ok := strings.CutPrefix(text, "whsec_"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New("has no base64 after whsec_")
		}
	}
	if len(key) < secretBytesMin {
		return nil, fmt.Errorf("has %d bytes", len(key))
	}
	return key, nil
}

// Sign returns the signature of a message that is sent at the given time.
func (s Secret) Sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
