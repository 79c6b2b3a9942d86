package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// errTooLarge is the error of a group that does not fit a question.
var errTooLarge = errors.New("the keys are too large to ask a master about")

// A statusError is an answer of a master that is not a decision.
type statusError struct {
	status int
	what   string
}

func (e *statusError) Error() string { return e.what }

// An unavailableError says that a master's own store is unavailable.
type unavailableError struct {
	master string
	mode   store.Mode
}

func (e *unavailableError) Error() string {
	return fmt.Sprintf("the store of %s is unavailable, it is in %v mode", e.master, e.mode)
}

// wrongProgram returns the error for an answer that is not from a master of this version.
func wrongProgram(err error) error {
	return &store.MisconfiguredError{Cause: store.WrongProtocol, Err: err}
}

// refused returns the error for an answer with an unexpected status.
func refused(master, path string, status int, body []byte) error {
	var answer struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(body, &answer) // otherwise only the status is reported
	what := fmt.Sprintf("%s answers %d to %s", master, status, path)
	if answer.Error != "" {
		what += fmt.Sprintf(": %.200s", answer.Error)
	}
	err := &statusError{status, what}
	switch {
	case status == http.StatusUnauthorized:
		return &store.MisconfiguredError{Cause: store.Unauthenticated, Err: fmt.Errorf("%w; set REMOTE_TOKEN", err)}
	case status == http.StatusConflict || status == http.StatusNotFound || status == http.StatusMethodNotAllowed ||
		status/100 == 3:
		return wrongProgram(err)
	}
	return err
}

// late reports whether a master did not answer, or accept a connection, in time.
func late(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// Classify classifies an error of another method. It is not a fault if this proxy gave up,
// because the store was known to be unavailable or the loop ends.
func (b *backend) Classify(err error) store.Fault {
	if err == nil || errors.Is(err, context.Canceled) {
		return store.Fault{}
	}
	if permanent, ok := errors.AsType[*store.MisconfiguredError](err); ok {
		return store.Fault{Class: store.OutageFault, Code: permanent.Cause.String(), Permanent: permanent}
	}
	if unavailable, ok := errors.AsType[*unavailableError](err); ok {
		return store.Fault{Class: store.OutageFault, Code: unavailable.mode.String()}
	}
	if refusal, ok := errors.AsType[*statusError](err); ok {
		f := store.Fault{Class: store.OutageFault, Code: strconv.Itoa(refusal.status)}
		if s := refusal.status; s == http.StatusBadRequest || s == http.StatusForbidden ||
			s == http.StatusRequestEntityTooLarge {
			f.Class = store.ItemFault
		}
		return f
	}
	switch {
	case errors.Is(err, asks.ErrUndecided), errors.Is(err, store.ErrReadOnly), errors.Is(err, errTooLarge):
		return store.Fault{Class: store.ItemFault}
	case late(err):
		return store.Fault{Class: store.TimeoutFault}
	}
	return store.Fault{Class: store.OutageFault}
}
