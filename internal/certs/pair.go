package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fileBytesMax bounds what is read of a file: a chain of certificates has a few
// thousand bytes, a file of all authorities a few hundred thousand.
const fileBytesMax = 4 << 20

// A Pair is a certificate with its chain and the key to it, from two PEM files
// that may change: by being written over, replaced, or behind a symbolic link
// that is swapped, as Kubernetes does with the files of a secret. What they
// hold is compared, not when they were changed: that is one short read, and
// misses nothing.
//
// Safe for concurrent use: current is atomic, mu guards the rest.
type Pair struct {
	certFile, keyFile string
	config            *tls.Config
	current           atomic.Pointer[served]

	mu    sync.Mutex
	seen  contents // what Check looked at last, good or bad
	fault error    // why that is not served; nil: it is
}

// served is a certificate with its chain, and when all of it is valid.
//
// Immutable after New.
type served struct {
	tls.Certificate
	from, until time.Time
}

// contents are what two files hold, or why they cannot be read.
type contents struct {
	cert, key []byte
	err       string
}

func (c contents) equal(d contents) bool {
	return bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key) && c.err == d.err
}

// Load reads the pair. The error names the file and what is wrong with it.
func Load(certFile, keyFile string) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile}
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

// Config is a server's: TLS 1.2 or newer, HTTP/1.1 and nothing else, always the
// pair read last. There is one per Pair, not to be changed: it holds the keys
// of session tickets.
func (p *Pair) Config() *tls.Config { return p.config }

// Verifying is Config for clients that may show a certificate, which one of the authorities
// in caFile must have signed.
func (p *Pair) Verifying(caFile string) (*tls.Config, error) {
	authorities, err := Pool(caFile)
	if err != nil {
		return nil, err
	}
	cfg := p.config.Clone()
	cfg.ClientCAs, cfg.ClientAuth = authorities, tls.VerifyClientCertIfGiven
	return cfg, nil
}

// Expires is when the certificate does, or the first of its chain.
func (p *Pair) Expires() time.Time { return p.current.Load().until }

// Invalid says why clients refuse the certificate at now: it, or one of its chain, has
// expired or is not valid yet; nil when they do not. It is served all the same.
func (p *Pair) Invalid(now time.Time) error {
	switch c := p.current.Load(); {
	case now.After(c.until):
		return fmt.Errorf("%s expired on %s", p.certFile, c.until.UTC().Format(time.RFC3339))
	case now.Before(c.from):
		return fmt.Errorf("%s is not valid before %s", p.certFile, c.from.UTC().Format(time.RFC3339))
	}
	return nil
}

// Check reads the files and, if they hold something else than the last time,
// takes it. An error, reported once for each change, leaves the pair as it was:
// connections go on with the old one. The owner calls Check every second or
// so; it reads files and so is not for a loop.
func (p *Pair) Check() (changed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, err := p.read()
	if now.equal(p.seen) {
		return false, nil
	}
	p.seen, p.fault = now, err
	if err != nil {
		return false, err
	}
	pair, err := parsePair(now.cert, now.key)
	if err != nil {
		p.fault = fmt.Errorf("read certificate %s with key %s: %w", p.certFile, p.keyFile, err)
		return false, p.fault
	}
	p.current.Store(pair)
	return true, nil
}

// Fault is why the files, as Check has looked at them last, are not what is served;
// nil: they are.
func (p *Pair) Fault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

func (p *Pair) read() (c contents, err error) {
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

// readFile reads a file of bounded size; its errors name it. A pipe is not opened: one
// without a writer would never be read.
func readFile(name string) ([]byte, error) {
	if stat, err := os.Stat(name); err == nil && stat.Mode()&os.ModeNamedPipe != 0 {
		return nil, &os.PathError{Op: "open", Path: name, Err: errors.New("is a pipe")}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err == nil && len(b) > fileBytesMax {
		err = fmt.Errorf("%s: more than %d bytes", name, fileBytesMax)
	}
	return b, err
}

// parsePair makes a certificate of two PEM texts. The faults that crypto/tls
// would tell in its own words are looked for first.
func parsePair(cert, key []byte) (*served, error) {
	switch {
	case len(blocks(cert, "CERTIFICATE")) == 0:
		return nil, errors.New("the first holds no certificate in PEM form")
	case len(blocks(key, "PRIVATE KEY")) == 0:
		return nil, errors.New("the second holds no private key in PEM form")
	case encrypted(key):
		return nil, errors.New("the key is encrypted: only one without a passphrase can be used")
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

// blocks are the PEM blocks whose type ends as given: keys have several.
func blocks(b []byte, kind string) (found []*pem.Block) {
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			return found
		}
		if strings.HasSuffix(block.Type, kind) {
			found = append(found, block)
		}
	}
}

func encrypted(key []byte) bool {
	for _, block := range blocks(key, "PRIVATE KEY") {
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return true
		}
	}
	return false
}
