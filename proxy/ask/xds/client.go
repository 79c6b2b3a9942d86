package xds

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/program/journal"
	"weir/internal/program/metric"
	"weir/proxy/rules/descriptor"
)

// dialTimeout bounds a connect, and the handshake of TLS.
const dialTimeout = 10 * time.Second

// firstWithin bounds the wait for the first response on a stream. A server that has none for the node yet may leave it
// open; asking again costs it little, and an operator reads what is missing.
const firstWithin = 15 * time.Second

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
	refused   response      // the last one, unless one after it was accepted
	fault     string        // of refused; empty: there is none
	patience  time.Duration // firstWithin, except in tests
	lost      bool          // the last stream has ended, which was logged
	sleep     func(ctx context.Context, pause time.Duration) bool
}

// New returns a Client, which Run starts.
func New(cfg Config) *Client { return &Client{cfg: cfg, patience: firstWithin, sleep: sleep} }

// Register adds the client's metric to set.
func (c *Client) Register(set *metric.Set) {
	set.Gauge("ratelimiter_xds_connected", "1 while a stream to the server of limits is open on which it has sent some",
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
		c.lost = true
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(c.patience, func() {
		cancel(fmt.Errorf("it has sent no limits for the node %q within %v", c.cfg.Node, c.patience))
	})
	defer silent.Stop()
	transport := c.transport()
	defer transport.CloseIdleConnections()
	req := newRequest(&c.cfg)
	s, err := open(ctx, &c.cfg, &http.Client{Transport: transport, CheckRedirect: noRedirect}, req.append(nil))
	if err != nil {
		return false, cmp.Or(context.Cause(ctx), err)
	}
	defer s.close()
	defer context.AfterFunc(ctx, s.close)() // net/http does not look at ctx while it waits for our next message
	wait := c.cfg.BackoffMin
	for {
		message, err := s.receive()
		if err != nil {
			return received, cmp.Or(context.Cause(ctx), err)
		}
		if !received {
			silent.Stop()
			received = true
			c.begun()
		}
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

// begun notes the first response of a stream.
func (c *Client) begun() {
	c.connected.Store(true)
	const connected = "Connected to the xDS server"
	if c.lost {
		journal.LogRecovery(c.cfg.Log, connected, "server", c.cfg.Server)
	} else {
		c.cfg.Log.Info(connected, "server", c.cfg.Server)
	}
	c.lost = false
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
