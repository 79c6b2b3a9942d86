package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// shake has a client and a server shake hands and returns what the client got
// and met.
func shake(t *testing.T, client, server *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	ln := testkit.Must(tls.Listen("tcp", "127.0.0.1:0", server))(t)
	defer ln.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := ln.Accept()
		if err == nil {
			_ = c.(*tls.Conn).Handshake()
			_ = c.Close()
		}
	}()
	tcp := testkit.Must(net.Dial("tcp", ln.Addr().String()))(t)
	_ = tcp.SetDeadline(time.Now().Add(10 * time.Second))
	c := tls.Client(tcp, client)
	err := c.Handshake()
	state := c.ConnectionState()
	_ = tcp.Close()
	<-ended
	return state, err
}

func TestClientAndServerMeet(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.server(t, "localhost")
	certFile, keyFile := files(t, cert, key)
	p := mustLoad(t, certFile, keyFile)
	caFile := write(t, filepath.Join(t.TempDir(), "ca.pem"), append(newAuthority(t).pem, a.pem...))
	client := func(serverName string) *tls.Config {
		return testkit.Must(Client(caFile, serverName))(t)
	}
	state, err := shake(t, client("localhost"), p.Config())
	if err != nil || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "http/1.1" {
		t.Errorf("met with version %x and %q, %v; want TLS 1.3 and http/1.1", state.Version, state.NegotiatedProtocol, err)
	}
	if until := time.Until(p.Expires()); until < 0 || until > time.Hour {
		t.Errorf("the certificate expires in %v, want within the hour", until)
	}

	old := client("localhost")
	old.MaxVersion = tls.VersionTLS12
	if state, err := shake(t, old, p.Config()); err != nil || state.Version != tls.VersionTLS12 {
		t.Errorf("TLS 1.2: version %x, %v", state.Version, err)
	}
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := shake(t, old, p.Config()); err == nil {
		t.Error("TLS 1.1 was let in")
	}
	ancient := p.Config().Clone()
	ancient.MinVersion, ancient.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := shake(t, client("localhost"), ancient); err == nil {
		t.Error("a server of TLS 1.1 was good enough")
	}
	h2 := client("localhost")
	h2.NextProtos = []string{"h2"}
	if state, err := shake(t, h2, p.Config()); err == nil {
		t.Errorf("HTTP/2 alone led to %q", state.NegotiatedProtocol)
	}
	var name x509.HostnameError
	if _, err := shake(t, client("example.org"), p.Config()); !errors.As(err, &name) {
		t.Errorf("of another name: %v", err)
	}
	stranger := client("localhost")
	stranger.RootCAs = x509.NewCertPool()
	var unknown x509.UnknownAuthorityError
	if _, err := shake(t, stranger, p.Config()); !errors.As(err, &unknown) {
		t.Errorf("of an unknown authority: %v", err)
	}
}

// Connections that come after the change get the new certificate from the same
// configuration.
func TestConfigServesTheNewPair(t *testing.T) {
	a, p, certFile, keyFile := pair(t, "localhost")
	cfg := p.Config()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	seen := func() string {
		state := testkit.Must(shake(t, &tls.Config{RootCAs: pool, ServerName: "localhost"}, cfg))(t)
		return state.PeerCertificates[0].SerialNumber.String()
	}
	before := seen()
	cert, key := a.server(t, "localhost")
	write(t, certFile, cert)
	write(t, keyFile, key)
	mustCheck(t, p, true, "")
	if after := seen(); after == before {
		t.Error("a client still sees the old certificate")
	}
}

func TestClientWithoutFileTrustsTheSystem(t *testing.T) {
	cfg, err := Client("", "")
	if err != nil || cfg.RootCAs != nil {
		t.Errorf("roots %v, %v; want those of the system", cfg.RootCAs, err)
	}
}

func TestPoolSaysWhatIsWrong(t *testing.T) {
	a := newAuthority(t)
	_, key := a.server(t, "one")
	junk := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("not DER")})
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "no certificate"},
		{"no PEM", []byte("hello"), "no certificate"},
		{"a key behind it", append(a.pem[:len(a.pem):len(a.pem)], key...), "block 2 is a PRIVATE KEY"},
		{"a broken one behind it", append(a.pem[:len(a.pem):len(a.pem)], junk...), "certificate 2"},
		{"cut off", append(a.pem[:len(a.pem):len(a.pem)], a.pem[:len(a.pem)/2]...), "invalid PEM"},
		{"too large", bytes.Repeat([]byte("x"), fileBytesMax+1), "larger than"},
	} {
		file := write(t, filepath.Join(t.TempDir(), "ca.pem"), c.file)
		_, err := Pool(file)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: error %v, want one with %s and %q", c.name, err, file, c.want)
		}
		if _, err := Client(file, ""); err == nil {
			t.Errorf("%s: a client trusts it", c.name)
		}
	}
	if _, err := Pool(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// What a file of authorities may look like: text between the certificates, as
// openssl writes it.
func TestPoolTakesTextBetween(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	text := append([]byte("Certificate:\n    Data: of the first\n"), a.pem...)
	text = append(append(text, "\n# and of the second\r\n"...), b.pem...)
	file := write(t, filepath.Join(t.TempDir(), "ca.pem"), text)
	got, err := Pool(file)
	want := x509.NewCertPool()
	want.AddCert(a.cert)
	want.AddCert(b.cert)
	if err != nil || !got.Equal(want) {
		t.Errorf("not both certificates were read: %v", err)
	}
}
