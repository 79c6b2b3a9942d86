package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/program/watch"
)

// fileBytesMax bounds a file: a chain of certificates has a few thousand bytes, a file of
// all public authorities a few hundred thousand.
const fileBytesMax = 4 << 20

// A KeyPair is a certificate with its chain and its key, from two PEM files that may change:
// they are overwritten, replaced, or reached through a symbolic link that is swapped, as
// for the secrets of Kubernetes. Contents are compared, not modification times, which may
// stay the same.
//
// Safe for concurrent use: current is atomic, mu guards seen and fault.
type KeyPair struct {
	certFile, keyFile string
	config            *tls.Config
	current           atomic.Pointer[served]

	mu    sync.Mutex
	seen  contents // read by the last Check, valid or not
	fault error    // why they are not served; nil: they are
}

// served is a certificate with its chain, and the time in which all of it is valid.
//
// Immutable after New.
type served struct {
	tls.Certificate
	from, until time.Time
}

// contents are the contents of both files, or why they cannot be read.
type contents struct{ cert, key, err string }

// Load reads the pair. The error names the file and its fault.
func Load(certFile, keyFile string) (*KeyPair, error) {
	p := &KeyPair{certFile: certFile, keyFile: keyFile}
	p.config = &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &p.current.Load().Certificate, nil
		},
	}
	if _, err := p.Check(); err != nil {
		return nil, err
	}
	return p, nil
}

// Config returns the configuration of a server that presents the valid pair read last:
// TLS 1.2 or later, and only HTTP/1.1. All calls return the same one, because it contains
// the keys of session tickets. It must not be changed.
func (p *KeyPair) Config() *tls.Config { return p.config }

// HTTP2 returns Config for clients that may also use HTTP/2.
func (p *KeyPair) HTTP2() *tls.Config {
	cfg := p.config.Clone()
	cfg.NextProtos = []string{"h2", "http/1.1"}
	return cfg
}

// Verifying returns HTTP2 for clients that may present a certificate, which must be signed by one
// of the authorities in caFile and be for the DNS name or address san, or for any if that is empty.
func (p *KeyPair) Verifying(caFile, san string) (*tls.Config, error) {
	authorities, err := Pool(caFile)
	if err != nil {
		return nil, err
	}
	cfg := p.HTTP2()
	cfg.ClientCAs, cfg.ClientAuth = authorities, tls.VerifyClientCertIfGiven
	if san != "" {
		cfg.VerifyConnection = func(s tls.ConnectionState) error { // for resumed sessions too
			if len(s.PeerCertificates) == 0 {
				return nil
			}
			return s.PeerCertificates[0].VerifyHostname(san)
		}
	}
	return cfg, nil
}

// Expires returns when the first certificate of the chain expires.
func (p *KeyPair) Expires() time.Time { return p.current.Load().until }

// Invalid returns why clients refuse the certificate at now: part of its chain has expired
// or is not valid yet. It returns nil if they do not. The certificate is served either way.
func (p *KeyPair) Invalid(now time.Time) error {
	switch c := p.current.Load(); {
	case now.After(c.until):
		return fmt.Errorf("%s expired on %s", p.certFile, c.until.UTC().Format(time.RFC3339))
	case now.Before(c.from):
		return fmt.Errorf("%s is not valid before %s", p.certFile, c.from.UTC().Format(time.RFC3339))
	}
	return nil
}

// Check reads the files and serves them if they have changed. With an error, which is
// returned once per change, the previous pair is still served. The owner calls Check about
// once a second, but not on an event loop, since it reads files.
func (p *KeyPair) Check() (changed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, err := p.read()
	if now == p.seen {
		return false, nil
	}
	p.seen, p.fault = now, err
	if err != nil {
		return false, err
	}
	pair, err := parsePair([]byte(now.cert), []byte(now.key))
	if err != nil {
		p.fault = fmt.Errorf("read certificate %s with key %s: %w", p.certFile, p.keyFile, err)
		return false, p.fault
	}
	p.current.Store(pair)
	return true, nil
}

// Fault returns why the files read by the last Check are not served, or nil if they are.
func (p *KeyPair) Fault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

func (p *KeyPair) read() (c contents, err error) {
	if c.cert, err = readFile(p.certFile); err != nil {
		err = fmt.Errorf("read certificate: %w", err)
	} else if c.key, err = readFile(p.keyFile); err != nil {
		err = fmt.Errorf("read key of certificate: %w", err)
	}
	if err != nil {
		c.err = err.Error()
	}
	return c, err
}

// readFile reads a file of bounded size. Its errors name the file.
func readFile(name string) (string, error) {
	b, err := watch.ReadFile(name, fileBytesMax)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(b), nil
}

// parsePair parses a certificate and its key. Common faults are checked first, because the
// messages of crypto/tls are less clear.
func parsePair(cert, key []byte) (*served, error) {
	certs, _ := blocks(cert)
	keys, _ := blocks(key)
	switch {
	case !slices.ContainsFunc(certs, func(b *pem.Block) bool { return strings.HasSuffix(b.Type, "CERTIFICATE") }):
		return nil, errors.New("the first contains no certificate in PEM form")
	case !slices.ContainsFunc(keys, isKey):
		return nil, errors.New("the second contains no private key in PEM form")
	case slices.ContainsFunc(keys, isEncrypted):
		return nil, errors.New("the key is encrypted; only keys without a passphrase can be used")
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "tls: "))
	}
	c := &served{Certificate: pair, from: pair.Leaf.NotBefore, until: pair.Leaf.NotAfter}
	for _, der := range pair.Certificate[1:] {
		link, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("a certificate of the chain: %w", err)
		}
		if link.NotBefore.After(c.from) {
			c.from = link.NotBefore
		}
		if link.NotAfter.Before(c.until) {
			c.until = link.NotAfter
		}
	}
	return c, nil
}

// blocks returns the PEM blocks of b, and what follows them.
func blocks(b []byte) (all []*pem.Block, rest []byte) {
	block, rest := pem.Decode(b)
	for ; block != nil; block, rest = pem.Decode(rest) {
		all = append(all, block)
	}
	return all, rest
}

func isKey(b *pem.Block) bool { return strings.HasSuffix(b.Type, "PRIVATE KEY") } // there are several types

func isEncrypted(b *pem.Block) bool {
	return isKey(b) && (b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED"))
}
