package roster

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

// A Target is one target: as the settings name it, or one of the addresses of such a
// name.
//
// Immutable.
type Target struct {
	URL    string      // http://host:port, or https, h2c or h2
	Addr   string      // host:port to connect to; the host of a resolved target is an address
	Host   string      // value of the Host field
	Secure *tls.Config // for https, with the name that the certificate must have; nil: no TLS
	HTTP2  bool        // it is used by HTTP/2; with TLS only if it is chosen by ALPN
}

// protocols returns what the target is asked by.
func (t *Target) protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(!t.HTTP2 || t.Secure != nil)
	p.SetHTTP2(t.HTTP2)
	p.SetUnencryptedHTTP2(t.HTTP2)
	return p
}

// An identity identifies a target across two lists.
type identity struct {
	url, addr string
	secure    *tls.Config
}

func (t *Target) identity() identity { return identity{t.URL, t.Addr, t.Secure} }

// hostOf returns the name by which the target's host is resolved, and its port. The name
// is "" if there is nothing to resolve: an address, or this machine.
func (t *Target) hostOf() (host, port string) {
	host, port, err := net.SplitHostPort(t.Addr)
	if err != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return "", port
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return "", port
	}
	return host, port
}

// A LoopView is what others see of a target on one loop.
//
// Safe for concurrent use: every field is one atomic word, which the loop writes.
type LoopView struct {
	// See upstream.Pool. A request that takes an idle connection or returns one changes only
	// Busy, because each store locks a cache line.
	Usable, Busy, Connecting, Waiting, Streams atomic.Int64
	Held                                       atomic.Int64 // exchanges that chose the target and wait for a place at any

	Status    atomic.Int64 // an upstream.Status
	Ejections atomic.Int64
	Failed    atomic.Bool // the last connect failed
	failures  atomic.Int64
	cause     atomic.Pointer[failure] // the last, or an equal one of the same second; nil: none
}

// Idle returns the number of idle connections.
func (v *LoopView) Idle() int64 {
	busy := v.Busy.Load()
	return max(0, v.Usable.Load()-busy)
}

// Short returns the number of exchanges, other than streams, that have a connection to the
// target or wait for one.
func (v *LoopView) Short() int64 { return max(0, v.Busy.Load()+v.Waiting.Load()-v.Streams.Load()) }

// InFlight returns the number of exchanges that have chosen the target.
func (v *LoopView) InFlight() int64 { return v.Busy.Load() + v.Waiting.Load() + v.Held.Load() }

// A failure is why a connect or an answer of a target failed.
//
// Immutable.
type failure struct {
	at   time.Time
	text string
}

// Fail records a failure of the target.
func (v *LoopView) Fail(now time.Time, text string) {
	if c := v.cause.Load(); c == nil || c.text != text || now.Sub(c.at) >= time.Second {
		v.cause.Store(&failure{now, text})
	}
	v.failures.Add(1)
}
