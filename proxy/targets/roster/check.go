package roster

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/net/http2"
	"weir/internal/timing/every"
	"weir/proxy/targets/upstream"
)

const (
	probePause   = time.Second
	probeTimeout = 500 * time.Millisecond // bounds the attempt to connect to a target that is down
)

// ErrNotHTTP2 is the error of a connect to a target that does not begin with the settings of HTTP/2.
var ErrNotHTTP2 = errors.New("the target does not speak HTTP/2")

// ErrNoStreams is the error of a connect to a target that allows no streams, or closes the connection at once.
var ErrNoStreams = errors.New("the target accepts no streams of HTTP/2")

// probe connects to the targets that are down, all at the same time. Readiness may keep
// requests away, and then nothing else notices that they are back.
func (l *List) probe() {
	var anyUp atomic.Bool
	var down []*Target
	for _, spec := range l.All() {
		if l.Reachable(spec) {
			anyUp.Store(true)
		} else if v, _ := l.verdict(spec); v != upstream.CheckedDown {
			down = append(down, spec)
		}
	}
	eachAtOnce(down, func(spec *Target) {
		if l.connects(spec) {
			anyUp.Store(true)
		}
	})
	if l.cfg.Reachable != nil {
		l.cfg.Reachable(anyUp.Load())
	}
}

// atOnceMax bounds the probes, checks or lookups in progress at a time.
const atOnceMax = 64

// eachAtOnce calls do for every item, up to atOnceMax at the same time, and returns when
// all calls have returned.
func eachAtOnce[T any](items []T, do func(T)) {
	var all sync.WaitGroup
	places := make(chan struct{}, atOnceMax)
	for _, item := range items {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			do(item)
		})
	}
	all.Wait()
}

// A DialFunc connects like net.Dialer.DialContext.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// connects reports whether a target can be reached. If so it notifies every loop.
func (l *List) connects(spec *Target) bool {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	if l.connect(ctx, spec) != nil {
		return false
	}
	l.cfg.Loops.Connected(spec)
	return true
}

// connect makes a connection to a target, with HTTP/2 up to the target's settings: requests wait for them.
func (l *List) connect(ctx context.Context, spec *Target) error {
	dial := l.cfg.Dial
	switch {
	case dial != nil:
	case spec.Secure == nil:
		dial = new(net.Dialer).DialContext
	default:
		dial = (&tls.Dialer{Config: spec.Secure}).DialContext
	}
	c, err := dial(ctx, "tcp", spec.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if secure, ok := c.(*tls.Conn); !spec.HTTP2 || ok && secure.ConnectionState().NegotiatedProtocol != "h2" {
		return nil
	}
	if until, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(until) // if it fails, so does reading
	}
	return greet(c)
}

// greet begins HTTP/2 on a connection, and returns when the target has sent its settings.
func greet(c net.Conn) error {
	h, head := http2.New(http2.Client, nil, time.Now()), new(http2.Head)
	if _, err := c.Write(h.AppendControl(nil)); err != nil {
		return err
	}
	var unread []byte
	for buf, settled := make([]byte, 4096), false; ; {
		ev, err := h.Next(time.Now(), unread, head)
		unread = unread[ev.N:]
		settled = settled || ev.Kind == http2.Settings
		switch {
		case err != nil:
			return ErrNotHTTP2
		case ev.Kind != http2.NeedMore:
			continue // a GOAWAY may follow
		case settled && h.Free() == 0:
			return ErrNoStreams
		case settled:
			return nil
		}
		n, err := c.Read(buf)
		unread = append(unread, buf[:n]...)
		switch {
		case n > 0:
		case len(unread) > 0, errors.Is(err, io.EOF):
			return ErrNotHTTP2
		default:
			return err
		}
	}
}

// Active health checks are a GET of one path, which must be answered with a status below 400.

// checkTimeoutMax bounds one check, as does the interval.
const checkTimeoutMax = 5 * time.Second

// verdict returns the current verdict about a target, and why its last check failed.
func (l *List) verdict(spec *Target) (v upstream.CheckResult, cause string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[spec]; e != nil {
		return e.check.Result(), e.cause
	}
	return v, ""
}

// checking checks all targets, once per interval, until ctx ends.
func (l *List) checking(ctx context.Context) {
	l.checkAll(ctx)
	every.Interval(ctx.Done(), l.cfg.CheckInterval, func(time.Time) { l.checkAll(ctx) })
}

// checkAll checks every target.
func (l *List) checkAll(ctx context.Context) {
	l.mu.Lock()
	all := l.entries
	l.mu.Unlock()
	eachAtOnce(slices.Collect(maps.Keys(all)), func(spec *Target) {
		err := l.check(ctx, spec)
		if ctx.Err() == nil { // otherwise the drain cancelled the check
			l.judge(spec, all[spec], err)
		}
	})
}

// check performs one check. The error says why it failed.
func (l *List) check(ctx context.Context, spec *Target) error {
	ctx, cancel := context.WithTimeout(ctx, min(l.cfg.CheckInterval, checkTimeoutMax))
	defer cancel()
	url := "http://" + spec.Addr + l.cfg.CheckPath
	if spec.Secure != nil {
		url = "https://" + spec.Addr + l.cfg.CheckPath
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Host = spec.Host
	req.Header.Set("User-Agent", "weir-check")
	tr := &http.Transport{TLSClientConfig: spec.Secure, DisableKeepAlives: true, Protocols: spec.protocols()}
	res, err := tr.RoundTrip(req)
	if err != nil {
		// The transport says of a target of another protocol only that a frame is too large, or nothing.
		if spec.HTTP2 && errors.Is(l.connect(ctx, spec), ErrNotHTTP2) {
			return ErrNotHTTP2
		}
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	if res.StatusCode >= 400 {
		return errors.New(StatusCause(res.StatusCode))
	}
	return nil
}

// judge passes the result of a check to every loop.
func (l *List) judge(spec *Target, e *entry, fault error) {
	l.mu.Lock()
	checkResult := e.check.Record(fault == nil)
	if fault != nil {
		e.cause = "check of " + l.cfg.CheckPath + ": " + ErrorCause(fault)
	}
	l.mu.Unlock()
	l.cfg.Loops.Checked(spec, checkResult, time.Duration(e.check.Missing())*l.cfg.CheckInterval)
}
