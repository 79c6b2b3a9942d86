package roster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"weir/internal/net/loop"
	"weir/proxy/targets/upstream"
)

// ErrorCause describes in a few words why a connect or a check failed. Equal faults have equal
// words, without local ports.
func ErrorCause(err error) string {
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
		return "TLS: the target does not support it"
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

// A StateLogger logs when the state of a target changes.
//
// Owned by one goroutine.
type StateLogger struct {
	logged map[*Target]loggedState
}

// A loggedState is the state of a target that was logged last.
type loggedState struct {
	targetState
	since time.Time // when it was logged
}

// Poll logs what has changed since the last call, at most one line per target.
func (w *StateLogger) Poll(now time.Time, l *List) {
	logged := make(map[*Target]loggedState)
	for _, spec := range l.All() {
		logged[spec] = w.note(now, l.cfg.Log.With("target", spec.URL, "address", spec.Addr), w.logged[spec], l.state(spec))
	}
	w.logged = logged
}

// note logs the change from one state to the next, with the number of failed connects and
// answers since the last line, and returns the new logged state.
func (w *StateLogger) note(now time.Time, log *slog.Logger, was loggedState, is targetState) loggedState {
	if is.status == upstream.Probing {
		is.status = upstream.Ejected // which of the two it is depends only on how long it has lasted
	}
	failures := is.failures - was.failures
	switch {
	case is.status == upstream.Draining: // has left the list
		return was
	case is.status == was.status && is.cause == was.cause:
		if is.status == upstream.Up && failures > 0 {
			log.Warn("Target failed and is up again", "cause", is.failed, "failures", failures)
			return loggedState{is, now}
		}
		return was
	case is.status == upstream.Up:
		log.Info("Target is up again", "after", now.Sub(was.since).Round(time.Millisecond), "failures", failures)
	case is.status == upstream.Down:
		log.Warn("Target is down", "cause", is.cause, "failures", failures)
	case is.status == upstream.Ejected:
		log.Warn("Target gets no requests for a while because it answers with errors", "cause", is.cause, "failures",
			failures)
	}
	if is.status == was.status {
		return loggedState{is, was.since} // another cause
	}
	return loggedState{is, now}
}

// StatusCause returns the cause for a status that counts against the target.
func StatusCause(status int) string { return fmt.Sprintf("answered %d", status) }
