package roster

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

// A Target is one target: as the settings name it, or one of the addresses of
// such a name.
//
// Immutable.
type Target struct {
	URL    string      // http://host:port or https://host:port
	Addr   string      // to connect to: host:port; the host of an address is one
	Host   string      // what the target is called in Host
	Secure *tls.Config // for https, with the name that the certificate must be for; nil: plain
}

// An identity is what a target of a new list has in common with the same of the one before.
type identity struct {
	url, addr string
	secure    *tls.Config
}

func (t *Target) identity() identity { return identity{t.URL, t.Addr, t.Secure} }

// hostOf is the name that the target's host is looked up by, and its port; ""
// when there is nothing to look up: an address, or this machine.
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

// A View is what others see of a target on one loop.
//
// Safe for concurrent use: every field is one atomic word, which the loop writes.
type View struct {
	Idle, Busy, Connecting, InFlight, Streams atomic.Int64 // see upstream.Pool

	Status    atomic.Int64 // an upstream.Status
	Ejections atomic.Int64
	Failed    atomic.Bool // the last connect did
	failures  atomic.Int64
	cause     atomic.Pointer[failure] // the last, or one like it of this second; nil: there was none
}

// A failure is why a connect or an answer of a target has failed.
//
// Immutable.
type failure struct {
	at   time.Time
	text string
}

// Fail notes a failure of the target.
func (v *View) Fail(now time.Time, text string) {
	if c := v.cause.Load(); c == nil || c.text != text || now.Sub(c.at) >= time.Second {
		v.cause.Store(&failure{now, text})
	}
	v.failures.Add(1)
}
