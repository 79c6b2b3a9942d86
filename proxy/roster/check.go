package roster

import (
	"cmp"
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

	"weir/internal/every"
	"weir/proxy/upstream"
)

const (
	probePause   = time.Second
	probeTimeout = 500 * time.Millisecond // bounds the attempt to connect to a target that is down
)

// probe connects to the targets that are down, all at the same time. Readiness may keep
// requests away, and then nothing else notices that they are back.
func (l *List) probe() {
	var anyUp atomic.Bool
	var down []*Target
	for _, spec := range l.All() {
		switch {
		case l.Reachable(spec):
			anyUp.Store(true)
		case !l.checks.down(spec):
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

// connects reports whether a target accepts a connection. If so it notifies every loop.
func (l *List) connects(spec *Target) bool {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	dial := new(net.Dialer).DialContext
	if spec.Secure != nil {
		dial = (&tls.Dialer{Config: spec.Secure}).DialContext
	}
	c, err := dial(ctx, "tcp", spec.Addr)
	if err != nil {
		return false
	}
	_ = c.Close()
	l.cfg.Loops.Connected(spec)
	return true
}

// checks are the active health checks of the targets: a GET of one path, which must be
// answered with a status below 400.
//
// Safe for concurrent use: mu guards what changes.
type checks struct {
	path     string // empty: no checks
	interval time.Duration

	mu  sync.Mutex
	all map[*Target]*checked // replaced, never changed
}

// checked is what checks have found out about a target.
type checked struct {
	check   upstream.Check // owned by the checking goroutine
	verdict upstream.Verdict
	cause   string // why the last failed check failed
}

// checkTimeoutMax bounds one check, as does the interval.
const checkTimeoutMax = 5 * time.Second

// down reports whether the checks have found a target to be down.
func (ch *checks) down(spec *Target) bool {
	v, _ := ch.verdict(spec)
	return v == upstream.CheckedDown
}

// verdict returns the current verdict about a target, and why its last check failed.
func (ch *checks) verdict(spec *Target) (v upstream.Verdict, cause string) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if c := ch.all[spec]; c != nil {
		return c.verdict, c.cause
	}
	return v, ""
}

// follow sets the targets to check.
func (ch *checks) follow(list []*Target) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	all := make(map[*Target]*checked, len(list))
	for _, spec := range list {
		all[spec] = cmp.Or(ch.all[spec], new(checked))
	}
	ch.all = all
}

// checking checks all targets, once per interval, until ctx ends.
func (l *List) checking(ctx context.Context) {
	l.checkAll(ctx)
	every.Pause(ctx.Done(), l.checks.interval, func(time.Time) { l.checkAll(ctx) })
}

// checkAll checks every target.
func (l *List) checkAll(ctx context.Context) {
	l.checks.mu.Lock()
	all := l.checks.all
	l.checks.mu.Unlock()
	eachAtOnce(slices.Collect(maps.Keys(all)), func(spec *Target) {
		err := l.check(ctx, spec)
		if ctx.Err() == nil { // otherwise the drain cancelled the check
			l.judge(spec, all[spec], err)
		}
	})
}

// check performs one check. The error says why it failed.
func (l *List) check(ctx context.Context, spec *Target) error {
	ctx, cancel := context.WithTimeout(ctx, min(l.checks.interval, checkTimeoutMax))
	defer cancel()
	url := "http://" + spec.Addr + l.checks.path
	if spec.Secure != nil {
		url = "https://" + spec.Addr + l.checks.path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Host = spec.Host
	req.Header.Set("User-Agent", "weir-check")
	tr := &http.Transport{TLSClientConfig: spec.Secure, DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	if res.StatusCode >= 400 {
		return errors.New(Answered(res.StatusCode))
	}
	return nil
}

// judge passes the result of a check to every loop.
func (l *List) judge(spec *Target, c *checked, fault error) {
	l.checks.mu.Lock()
	if fault != nil {
		c.verdict, c.cause = c.check.Failed(), "check of "+l.checks.path+": "+Cause(fault)
	} else {
		c.verdict = c.check.Passed()
	}
	verdict := c.verdict
	l.checks.mu.Unlock()
	l.cfg.Loops.Checked(spec, verdict, time.Duration(c.check.Missing())*l.checks.interval)
}
