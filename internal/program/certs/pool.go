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

// PresentCertificate makes a client that is asked for a certificate show that of a pair of files, which are read again
// for each connection: the valid pair read last is shown.
func PresentCertificate(cfg *tls.Config, certFile, keyFile string) error {
	pair, err := Load(certFile, keyFile)
	if err != nil {
		return err
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		_, _ = pair.Check()
		return &pair.current.Load().Certificate, nil
	}
	return nil
}

// SkipNameCheck makes a client accept the certificate of a server for any name, if it is signed by an authority
// that it trusts.
func SkipNameCheck(cfg *tls.Config) {
	cfg.InsecureSkipVerify = true // VerifyConnection checks all but the name
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: cfg.RootCAs, Intermediates: between})
		return err
	}
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
