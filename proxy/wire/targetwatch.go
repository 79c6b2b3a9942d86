package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"weir/internal/loop"
	"weir/proxy/exchange"
	"weir/proxy/upstream"
)

// A targetState is how a target is over all loops: as well as the best one finds
// it, and down when it cannot be reached.
type targetState struct {
	status   upstream.Status
	cause    string // why it is not up; empty: it is
	failures int64  // connects and answers that have failed so far
	failed   string // why the last of them did; empty: none has
}

// state is what the log, health, readiness and /config/targets say of a target.
func (f *Front) state(spec *Target) targetState {
	st := targetState{status: upstream.Draining}
	connected, failed := false, false
	var last time.Time
	for t := range f.each(spec) {
		st.status = min(st.status, upstream.Status(t.status.Load()))
		connected = connected || t.idle.Load()+t.busy.Load() > 0
		failed = failed || t.failed.Load()
		st.failures += t.failures.Load()
		if c := t.cause.Load(); c != nil && c.at.After(last) {
			last, st.failed = c.at, c.text
		}
	}
	st.cause = st.failed
	verdict, cause := f.checks.verdict(spec)
	switch {
	case verdict == upstream.CheckedDown:
		st.status, st.cause = upstream.Down, cause
	case failed && !connected:
		st.status = upstream.Down
	case st.status == upstream.Up:
		st.cause = ""
	}
	return st
}

// up reports whether a target is thought to be reachable: active checks do not
// deny it, and a loop has a connection to it, or none has failed to get one.
func (f *Front) up(spec *Target) bool { return f.state(spec).status != upstream.Down }

// A failure is why a connect or an answer of a target has failed.
//
// Immutable.
type failure struct {
	at   time.Time
	text string
}

// fail notes a failure of the target.
func (t *target) fail(now time.Time, text string) {
	if c := t.cause.Load(); c == nil || c.text != text || now.Sub(c.at) >= time.Second {
		t.cause.Store(&failure{now, text})
	}
	t.failures.Add(1)
}

// causeOf says in a few words why a connect or a check failed. Equal faults have equal
// words: they name no port of ours.
func causeOf(err error) string {
	var name *net.DNSError
	var shake *loop.HandshakeError
	var record tls.RecordHeaderError
	var untrusted *tls.CertificateVerificationError
	var timeout net.Error
	var code syscall.Errno
	switch {
	case errors.As(err, &name):
		return "DNS: " + name.Err
	case errors.As(err, &record):
		return "TLS: the target does not speak it"
	case errors.As(err, &untrusted):
		return "TLS: " + untrusted.Err.Error()
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &code):
		return code.Error()
	case errors.As(err, &shake):
		return "TLS: " + shake.Err.Error()
	}
	return err.Error()
}

// A targetWatch logs when the state of a target changes.
//
// Owned by housekeeping.
type targetWatch struct {
	told map[*Target]toldState
}

// A toldState is what was said of a target last.
type toldState struct {
	targetState
	since time.Time // when it was
}

// watch tells what has changed since the last call, a line for each target at most.
func (w *targetWatch) watch(now time.Time, f *Front) {
	told := make(map[*Target]toldState)
	for _, spec := range f.targetList() {
		told[spec] = w.note(now, f.cfg.Log.With("target", spec.URL, "address", spec.Addr), w.told[spec], f.state(spec))
	}
	w.told = told
}

// note logs the change from one state to the next, with the number of connects and
// answers that have failed since the last line, and returns what is known now.
func (w *targetWatch) note(now time.Time, log *slog.Logger, was toldState, is targetState) toldState {
	if is.status == upstream.Probing {
		is.status = upstream.Ejected // which of both it is says only how long it has lasted
	}
	failures := is.failures - was.failures
	switch {
	case is.status == upstream.Draining: // it has left
		return was
	case is.status == was.status && is.cause == was.cause:
		if is.status == upstream.Up && failures > 0 {
			log.Warn("Target failed and is up again", "cause", is.failed, "failures", failures)
			return toldState{is, now}
		}
		return was
	case is.status == upstream.Up:
		log.Info("Target is up again", "after", now.Sub(was.since).Round(time.Millisecond), "failures", failures)
	case is.status == upstream.Down:
		log.Warn("Target is down", "cause", is.cause, "failures", failures)
	case is.status == upstream.Ejected:
		log.Warn("Target is left alone for a while, as it answers with errors", "cause", is.cause, "failures", failures)
	}
	if is.status == was.status {
		return toldState{is, was.since} // another cause
	}
	return toldState{is, now}
}

// answeredWith is the cause when a status speaks against the target.
func answeredWith(status int) string { return fmt.Sprintf("answered %d", status) }

// answerCause says why an answer speaks against the target.
func answerCause(status int, fault exchange.Fault) string {
	switch fault {
	case exchange.FaultNone:
		return answeredWith(status)
	case exchange.FaultTimeout:
		return "no answer in time"
	case exchange.FaultClosed:
		return "the connection ended before the answer"
	case exchange.FaultGarbled:
		return "the answer is not HTTP as it should be"
	}
	return fault.String()
}
