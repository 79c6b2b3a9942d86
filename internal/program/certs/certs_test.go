package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// An authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	a.cert, a.pem = a.sign(t, template, template, &a.key.PublicKey)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	return testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

var serial int64

func (a *authority) sign(t *testing.T, template, parent *x509.Certificate, key *ecdsa.PublicKey) (*x509.Certificate,
	[]byte) {
	t.Helper()
	serial++
	template.SerialNumber = big.NewInt(serial)
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	der := testkit.Must(x509.CreateCertificate(rand.Reader, template, parent, key, a.key))(t)
	cert := testkit.Must(x509.ParseCertificate(der))(t)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// server is a certificate for name and its key, both in PEM form.
func (a *authority) server(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	k := newKey(t)
	_, cert = a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}, a.cert,
		&k.PublicKey)
	der := testkit.Must(x509.MarshalPKCS8PrivateKey(k))(t)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// files are a pair in a folder of their own.
func files(t *testing.T, cert, key []byte) (certFile, keyFile string) {
	dir := t.TempDir()
	return write(t, filepath.Join(dir, "tls.crt"), cert), write(t, filepath.Join(dir, "tls.key"), key)
}

// serves is the name of the certificate that p serves.
func serves(t *testing.T, p *KeyPair) string {
	t.Helper()
	c := testkit.Must(p.Config().GetCertificate(nil))(t)
	return c.Leaf.Subject.CommonName
}

// pair is a KeyPair of the certificate of a name, with its authority and its files.
func pair(t *testing.T, name string) (a *authority, p *KeyPair, certFile, keyFile string) {
	t.Helper()
	a = newAuthority(t)
	cert, key := a.server(t, name)
	certFile, keyFile = files(t, cert, key)
	return a, mustLoad(t, certFile, keyFile), certFile, keyFile
}

// mustServe fails unless p serves the certificate of a name.
func mustServe(t *testing.T, p *KeyPair, want, when string) {
	t.Helper()
	if got := serves(t, p); got != want {
		t.Errorf("%s: serves %q, want %q", when, got, want)
	}
}

func mustLoad(t *testing.T, certFile, keyFile string) *KeyPair {
	t.Helper()
	return testkit.Must(Load(certFile, keyFile))(t)
}

// mustCheck checks and expects a change and an error that says want, or none.
func mustCheck(t *testing.T, p *KeyPair, changed bool, want string) {
	t.Helper()
	got, err := p.Check()
	if got != changed {
		t.Errorf("the pair is said to have changed: %v, want %v", got, changed)
	}
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one with %q", err, want)
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.server(t, "one")
	_, other := a.server(t, "two")
	locked := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("secret")})
	oldLocked := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY",
		Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}, Bytes: []byte("secret")})
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("not DER")})
	for _, c := range []struct {
		name      string
		cert, key []byte
		want      string
	}{
		{"another's key", cert, other, "private key does not match public key"},
		{"no certificate", []byte("hello"), key, "the first contains no certificate"},
		{"a key for a certificate", key, key, "the first contains no certificate"},
		{"no key", cert, nil, "the second contains no private key"},
		{"a certificate for a key", cert, cert, "the second contains no private key"},
		{"a key with a passphrase", cert, locked, "encrypted"},
		{"a key with a passphrase, as of old", cert, oldLocked, "encrypted"},
		{"a broken certificate", broken, key, "x509"},
		{"too large", make([]byte, fileBytesMax+1), key, "larger than"},
	} {
		certFile, keyFile := files(t, c.cert, c.key)
		_, err := Load(certFile, keyFile)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), certFile) {
			t.Errorf("%s: error %v, want one with %s and %q", c.name, err, certFile, c.want)
		}
	}
	certFile, keyFile := files(t, cert, key)
	for _, missing := range []string{certFile, keyFile} {
		if err := os.Rename(missing, missing+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(certFile, keyFile); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("error %v, want that there is no %s", err, missing)
		}
		_ = os.Rename(missing+".away", missing)
	}
}

// A certificate that clients refuse is served all the same, and reported with the date; so
// is one whose chain has a link that they refuse.
func TestInvalid(t *testing.T) {
	a := newAuthority(t)
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	k := newKey(t)
	secret := testkit.Must(x509.MarshalPKCS8PrivateKey(k))(t)
	valid := func(from, until int) []byte {
		_, cert := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "one"}, NotBefore: day(from),
			NotAfter: day(until)}, a.cert, &k.PublicKey)
		return cert
	}
	for _, test := range []struct {
		name    string
		chain   []byte
		now     int
		expires int
		want    string
	}{
		{"valid", valid(1, 9), 5, 9, ""},
		{"its last day", valid(1, 9), 9, 9, ""},
		{"expired", valid(1, 9), 10, 9, "expired on 2026-01-09T00:00:00Z"},
		{"not yet valid", valid(3, 9), 2, 9, "is not valid before 2026-01-03T00:00:00Z"},
		{"a link expires first", append(valid(1, 9), valid(1, 5)...), 6, 5, "expired on 2026-01-05T00:00:00Z"},
		{"a link begins last", append(valid(1, 9), valid(4, 9)...), 3, 9, "is not valid before 2026-01-04T00:00:00Z"},
	} {
		certFile, keyFile := files(t, test.chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
		p := mustLoad(t, certFile, keyFile)
		want := test.want
		if want != "" {
			want = certFile + " " + want
		}
		problem := ""
		if err := p.Invalid(day(test.now)); err != nil {
			problem = err.Error()
		}
		if problem != want || !p.Expires().Equal(day(test.expires)) || serves(t, p) != "one" {
			t.Errorf("%s: invalid %q, expires %v; want %q, day %d", test.name, problem, p.Expires(), want, test.expires)
		}
	}
}

func TestCheckTakesWhatChanged(t *testing.T) {
	a, p, certFile, keyFile := pair(t, "one")
	mustCheck(t, p, false, "")
	cert, key := a.server(t, "two")
	write(t, certFile, cert)
	write(t, keyFile, key)
	mustCheck(t, p, true, "")
	mustCheck(t, p, false, "")
	mustServe(t, p, "two", "after the change")
}

// A pair is written in two steps, and a mistake is noticed by whoever made it:
// until it is right the old one stays.
func TestBrokenPairKeepsTheOldOneAndIsToldOnce(t *testing.T) {
	a, p, certFile, keyFile := pair(t, "one")
	cert, key := a.server(t, "two")
	for _, step := range []struct {
		what string
		does func()
		want string
	}{
		{"the certificate is new, its key not yet", func() { write(t, certFile, cert) }, "does not match"},
		{"the key is empty", func() { write(t, keyFile, nil) }, "no private key"},
		{"the key is gone", func() { _ = os.Remove(keyFile) }, keyFile},
	} {
		t.Log(step.what)
		step.does()
		mustCheck(t, p, false, step.want)
		mustCheck(t, p, false, "")
		mustServe(t, p, "one", step.what)
	}
	write(t, keyFile, key)
	mustCheck(t, p, true, "")
	mustServe(t, p, "two", "after the repair")
}

// Kubernetes: tls.crt -> ..data/tls.crt, ..data -> a folder with a date, which
// is swapped as a whole.
func TestSwappedSymlinkIsAChange(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	version := func(name string) string {
		cert, key := a.server(t, name)
		sub := filepath.Join(dir, ".."+name)
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(sub, "tls.crt"), cert)
		write(t, filepath.Join(sub, "tls.key"), key)
		return ".." + name
	}
	link := func(to, name string) string {
		name = filepath.Join(dir, name)
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	link(version("one"), "..data")
	p := mustLoad(t, link("..data/tls.crt", "tls.crt"), link("..data/tls.key", "tls.key"))
	if err := os.Rename(link(version("two"), "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, p, true, "")
	mustServe(t, p, "two", "after the swap")
}

// A change of the same length within the clock of the file system.
func TestChangeThatTheFileSystemDoesNotShow(t *testing.T) {
	_, p, certFile, _ := pair(t, "one")
	info, err1 := os.Stat(certFile)
	cert, err2 := os.ReadFile(certFile)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	write(t, certFile, []byte(strings.Replace(string(cert), "M", "N", 1)))
	_ = os.Chtimes(certFile, info.ModTime(), info.ModTime())
	mustCheck(t, p, false, certFile)
}

// A pipe without a writer is refused, not waited for.
func TestPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(name, name); err == nil || !strings.Contains(err.Error(), name+": is not a regular file") {
		t.Errorf("loaded: %v", err)
	}
	if _, err := Pool(name); err == nil || !strings.Contains(err.Error(), name+": is not a regular file") {
		t.Errorf("read authorities: %v", err)
	}
}
