package delivery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/proxy/deferred/callback"
)

// Bounds of one attempt.
const (
	timeoutUsual   = 15 * time.Second // for the whole attempt
	dialTimeout    = 5 * time.Second
	idleTimeout    = 30 * time.Second
	headBytesMax   = 16 << 10
	answerBytesMax = 64 << 10 // read, so that the connection can be reused
	idlePerHost    = 4
)

// A CallbackConfig configures a CallbackSender.
type CallbackConfig struct {
	Hosts    *callback.Hosts
	Secret   callback.Secret
	Timeout  time.Duration  // of an attempt; 0: 15 s
	Roots    *x509.CertPool // authorities; nil: the system's
	Resolver *net.Resolver  // nil: the system's
}

// A CallbackSender sends callbacks.
//
// Safe for concurrent use: it is immutable, and http.Client is safe.
type CallbackSender struct {
	cfg  CallbackConfig
	http *http.Client
}

// NewCallbackSender returns a CallbackSender.
func NewCallbackSender(cfg CallbackConfig) *CallbackSender {
	cfg.Timeout = cmp.Or(cfg.Timeout, timeoutUsual)
	c := &CallbackSender{cfg: cfg}
	c.http = &http.Client{
		Transport: &http.Transport{ // without Proxy, which would choose the address
			DialContext:            c.dial,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
			MaxIdleConnsPerHost:    idlePerHost,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: headBytesMax,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// dial connects to a host. Each address is checked when it is dialled, since names may change
// their addresses.
func (c *CallbackSender) dial(ctx context.Context, network, line string) (net.Conn, error) {
	line = strings.ToLower(line)
	d := net.Dialer{Timeout: dialTimeout, Resolver: c.cfg.Resolver,
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return c.cfg.Hosts.Permits(line, to.Addr())
		}}
	return d.DialContext(ctx, network, line)
}

// A CallbackMessage is the content of a callback.
type CallbackMessage struct {
	ID   string // the same in each attempt
	URL  string
	Body []byte // JSON
}

// A CallbackResult is the result of an attempt.
type CallbackResult struct {
	Status     int
	RetryAfter string // Retry-After of the answer; may be empty
	Err        error  // why there is no answer; nil: there is one
}

// Send makes an attempt, which also ends when ctx ends.
func (c *CallbackSender) Send(ctx context.Context, now time.Time, m *CallbackMessage) (r CallbackResult) {
	if _, err := c.cfg.Hosts.Check(m.URL); err != nil { // the list may have changed since the callback was stored
		return CallbackResult{Err: fmt.Errorf("the URL %w", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return CallbackResult{Err: err}
	}
	h := request.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "Weir")
	h.Set(callback.IDField, m.ID)
	h.Set(callback.TimestampField, strconv.FormatInt(now.Unix(), 10))
	h.Set(callback.SignatureField, c.cfg.Secret.Sign(m.ID, now, m.Body))
	answer, err := c.http.Do(request)
	if err != nil {
		return CallbackResult{Err: c.reason(err)}
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, answerBytesMax) // a longer answer closes the connection
	return CallbackResult{Status: answer.StatusCode, RetryAfter: answer.Header.Get("Retry-After")}
}

// reason returns why an attempt has failed, without the URL.
func (c *CallbackSender) reason(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", c.cfg.Timeout)
	}
	if in, ok := errors.AsType[*url.Error](err); ok {
		return in.Err
	}
	return err
}
