package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// sessionsMax bounds the sessions that a client keeps for resumption.
const sessionsMax = 256

// Client returns the configuration of a client: TLS 1.2 or later, and only HTTP/1.1. It
// trusts the authorities in caFile, or those of the system if that is empty. The server's
// certificate must match serverName, or the dialled host if that is empty.
func Client(caFile, serverName string) (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		ServerName:         serverName,
		ClientSessionCache: tls.NewLRUClientSessionCache(sessionsMax),
	}
	if caFile != "" {
		pool, err := Pool(caFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = pool
	}
	return cfg, nil
}

// Pool reads the certificates of authorities from a PEM file. Unlike x509.CertPool it skips
// nothing: a block that is not a valid certificate is an error with its position in the
// file.
func Pool(file string) (*x509.CertPool, error) {
	text, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	b := []byte(text)
	pool := x509.NewCertPool()
	n := 0
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		n++
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("read authorities %s: block %d is a %s, only CERTIFICATE is allowed", file, n, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read authorities %s: certificate %d: %w", file, n, err)
		}
		pool.AddCert(cert)
	}
	switch {
	case bytes.Contains(b, []byte("-----BEGIN")):
		return nil, fmt.Errorf("read authorities %s: invalid PEM after certificate %d", file, n)
	case n == 0:
		return nil, fmt.Errorf("read authorities %s: it contains no certificate in PEM form", file)
	}
	return pool, nil
}
