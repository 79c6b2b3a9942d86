package redis

import (
	"errors"
	"strings"

	"github.com/redis/rueidis"

	"weir/proxy/store"
)

// permanent are prefixes of errors that persist until an operator changes something. The
// library removes "ERR ".
var permanent = []struct {
	begins string
	cause  store.Cause
}{
	{"WRONGPASS", store.Unauthenticated},
	{"NOAUTH", store.Unauthenticated},
	{"invalid password", store.Unauthenticated}, // before Redis 6
	{"NOPERM", store.Unauthorized},
	{"The user executing the script can't run", store.Unauthorized}, // Redis 6 and 7.0
	{"ACL failure in script", store.Unauthorized},
	{"DB index is out of range", store.NoDatabase},
	{"No such master", store.NoDatabase}, // of a Sentinel
	{"unknown command", store.WrongProtocol},
}

// notRESP is in the library's error about an answer that violates the protocol.
const notRESP = "received unknown message type"

// misconfigured returns the *store.MisconfiguredError that err is or means, or nil.
func misconfigured(err error) *store.MisconfiguredError {
	if known, ok := errors.AsType[*store.MisconfiguredError](err); ok {
		return known
	}
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		if err != nil && strings.Contains(err.Error(), notRESP) {
			return &store.MisconfiguredError{Cause: store.WrongProtocol, Err: err}
		}
		return nil
	}
	for _, p := range permanent {
		if strings.HasPrefix(answer.Error(), p.begins) {
			return &store.MisconfiguredError{Cause: p.cause, Err: err}
		}
	}
	return nil
}
