package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
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
	all, rest := blocks([]byte(text))
	pool := x509.NewCertPool()
	for i, block := range all {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("read authorities %s: block %d is a %s, only CERTIFICATE is allowed", file, i+1, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read authorities %s: certificate %d: %w", file, i+1, err)
		}
		pool.AddCert(cert)
	}
	switch {
	case bytes.Contains(rest, []byte("-----BEGIN")):
		return nil, fmt.Errorf("read authorities %s: invalid PEM after certificate %d", file, len(all))
	case len(all) == 0:
		return nil, fmt.Errorf("read authorities %s: it contains no certificate in PEM form", file)
	}
	return pool, nil
}
