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

	"weir/internal/every"
	"weir/proxy/upstream"
)

// probeTimeout bounds the attempt to connect to a target that is down.
const probeTimeout = 500 * time.Millisecond

// probing probes once a second until stop is closed.
func (l *List) probing(stop <-chan struct{}) {
	every.Pause(stop, time.Second, func(time.Time) { l.probe() })
}

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

// connects reports whether a target accepts a connection. If so it tells every loop.
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
// Safe for concurrent use: mu guards the map; a Check belongs to the checking goroutine,
// and others read a copy.
type checks struct {
	path     string // empty: no checks
	interval time.Duration

	mu       sync.Mutex
	verdicts map[*Target]upstream.Verdict
	causes   map[*Target]string // why the last check failed
	running  map[*Target]*upstream.Check
}

// checkTimeoutMax bounds one check, as does the interval.
const checkTimeoutMax = 5 * time.Second

// down reports whether checks say that a target is down.
func (ch *checks) down(spec *Target) bool {
	v, _ := ch.verdict(spec)
	return v == upstream.CheckedDown
}

// verdict returns the current verdict about a target, and why its last check failed.
func (ch *checks) verdict(spec *Target) (v upstream.Verdict, cause string) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.verdicts[spec], ch.causes[spec]
}

// follow makes the given list the targets that are checked.
func (ch *checks) follow(list []*Target) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	verdicts, causes, running := make(map[*Target]upstream.Verdict), make(map[*Target]string), make(map[*Target]*upstream.Check)
	for _, spec := range list {
		verdicts[spec], causes[spec], running[spec] = ch.verdicts[spec], ch.causes[spec], ch.running[spec]
		if running[spec] == nil {
			running[spec] = new(upstream.Check)
		}
	}
	ch.verdicts, ch.causes, ch.running = verdicts, causes, running
}

// checking checks all targets, once per interval, until stop is closed.
func (l *List) checking(stop <-chan struct{}) {
	l.checkAll(stop)
	every.Pause(stop, l.checks.interval, func(time.Time) { l.checkAll(stop) })
}

// checkAll checks every target.
func (l *List) checkAll(stop <-chan struct{}) {
	l.checks.mu.Lock()
	running := l.checks.running
	l.checks.mu.Unlock()
	ctx, cancel := untilStop(stop)
	defer cancel()
	eachAtOnce(slices.Collect(maps.Keys(running)), func(spec *Target) {
		err := l.check(ctx, spec)
		select {
		case <-stop: // the drain cancelled the check
		default:
			l.checked(spec, running[spec], err)
		}
	})
}

// untilStop returns a context that ends when stop is closed.
func untilStop(stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
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

// checked tells every loop a check's result.
func (l *List) checked(spec *Target, check *upstream.Check, fault error) {
	v, cause := check.Passed, ""
	if fault != nil {
		v, cause = check.Failed, "check of "+l.checks.path+": "+Cause(fault)
	}
	verdict := v()
	l.checks.mu.Lock()
	if _, still := l.checks.verdicts[spec]; still {
		l.checks.verdicts[spec] = verdict
		if fault != nil {
			l.checks.causes[spec] = cause
		}
	}
	l.checks.mu.Unlock()
	l.cfg.Loops.Checked(spec, verdict, time.Duration(check.Missing())*l.checks.interval)
}
