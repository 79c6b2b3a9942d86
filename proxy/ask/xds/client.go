package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/program/metric"
	"weir/proxy/rules/descriptor"
)

// dialTimeout bounds a connect, and the handshake of TLS.
const dialTimeout = 10 * time.Second

// Config configures a Client.
type Config struct {
	Server   string            // host:port
	Node     string            // id
	Metadata map[string]string // of the node
	Fields   map[string]string // further fields of the request
	TLS      *tls.Config       // nil: plain text

	BackoffMin, BackoffMax time.Duration // waits before another stream, and before a refusal is sent
	MessageBytesMax        int           // of a response; beyond, the stream ends

	// Put puts all limits in force, or returns why it does not.
	Put func(files []descriptor.File) error
	Log *slog.Logger
}

// A Client follows the limits of a server.
//
// Safe for concurrent use: connected is atomic. Run is called once, and owns the other fields.
type Client struct {
	cfg       Config
	connected atomic.Bool
	refused   response // the last one, unless one after it was accepted
	fault     string   // of refused; empty: there is none
	sleep     func(ctx context.Context, pause time.Duration) bool
}

// New returns a Client, which Run starts.
func New(cfg Config) *Client { return &Client{cfg: cfg, sleep: sleep} }

// Register adds the client's metric to set.
func (c *Client) Register(set *metric.Set) {
	set.Gauge("ratelimiter_xds_connected", "1 while the server of limits has a stream open",
		func() float64 { return metric.Bool(c.connected.Load()) })
}

// Run follows the limits until ctx ends.
func (c *Client) Run(ctx context.Context) {
	wait := c.cfg.BackoffMin
	for {
		received, err := c.follow(ctx)
		c.connected.Store(false)
		if ctx.Err() != nil {
			return
		}
		if received {
			wait = c.cfg.BackoffMin
		}
		pause := jittered(wait)
		c.cfg.Log.Warn("The xDS server is unavailable, the limits in force stay", "server", c.cfg.Server, "reason",
			strings.ReplaceAll(err.Error(), "\n", "; "), "again", pause.Round(time.Millisecond))
		if !c.sleep(ctx, pause) {
			return
		}
		wait = min(2*wait, c.cfg.BackoffMax)
	}
}

// jittered shortens a wait by a random part, at most half, so that proxies do not call the server at the same time.
func jittered(wait time.Duration) time.Duration { return wait/2 + rand.N(wait/2+1) }

// sleep reports whether the pause has passed before ctx has ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// follow opens a stream and handles its responses. It returns when the stream has ended, and whether there was a
// response.
func (c *Client) follow(ctx context.Context) (received bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transport := c.transport()
	defer transport.CloseIdleConnections()
	req := newRequest(&c.cfg)
	s, err := open(ctx, &c.cfg, &http.Client{Transport: transport, CheckRedirect: noRedirect}, req.append(nil))
	if err != nil {
		return false, err
	}
	defer s.close()
	c.connected.Store(true)
	c.cfg.Log.Info("Connected to the xDS server", "server", c.cfg.Server)
	wait := c.cfg.BackoffMin
	for {
		message, err := s.receive()
		if err != nil {
			return received, err
		}
		received = true
		if c.handle(&req, message); req.fault == "" {
			wait = c.cfg.BackoffMin
		} else { // servers answer a refusal at once with the same limits
			if !c.sleep(ctx, jittered(wait)) {
				return received, ctx.Err()
			}
			wait = min(2*wait, c.cfg.BackoffMax)
		}
		if err := s.send(req.append(nil)); err != nil {
			return received, err
		}
	}
}

// handle puts a response in force, and sets the answer to it in req. A response that was refused before is refused
// without another try.
func (c *Client) handle(req *request, message []byte) {
	var res response
	err := res.read(message)
	req.nonce, res.unread = res.nonce, err
	if c.fault != "" && res.same(&c.refused) {
		req.fault = c.fault
		return
	}
	if err == nil {
		err = c.cfg.Put(res.files)
	}
	if err == nil {
		req.version, req.fault, c.refused, c.fault = res.version, "", response{}, ""
		return
	}
	req.fault = strings.ReplaceAll(err.Error(), "\n", "; ")
	c.refused, c.fault = res, req.fault
	c.cfg.Log.Error("Limits of the xDS server refused, the previous ones stay in force", "version", res.version,
		"reason", req.fault)
}

// transport returns a transport for one stream by HTTP/2.
func (c *Client) transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(c.cfg.TLS != nil)
	protocols.SetUnencryptedHTTP2(c.cfg.TLS == nil)
	return &http.Transport{
		Protocols: protocols, TLSClientConfig: c.cfg.TLS.Clone(), TLSHandshakeTimeout: dialTimeout,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, DisableCompression: true,
	}
}

func noRedirect(*http.Request, []*http.Request) error { return errors.New("the server redirects") }
