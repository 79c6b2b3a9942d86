package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// A fault is what an error of a call says about Redis.
type fault uint8

const (
	faultNone     fault = iota
	faultScript         // NOSCRIPT: the server does not know the script; it has not run
	faultItem           // this call cannot be decided, others may
	faultDeadline       // no answer in time; the call may have run
	faultAway           // the connection broke, or the server says that it cannot decide
)

// Errors of one group.
var (
	errReply   = errors.New("the script's reply has another form")
	errForeign = errors.New("WRONGTYPE a key holds something else than the state of a limit")
)

// errAway is the error of what needs Redis while it is away.
var errAway = errors.New("redis is unavailable")

// cannotDecide are the first words of errors that a server gives to every call
// for the time being: it is loading, a replica, out of memory, running an endless
// script, and the like.
var cannotDecide = []string{
	"LOADING", "READONLY", "MASTERDOWN", "OOM", "BUSY", "MISCONF", "NOREPLICAS",
	"CLUSTERDOWN", "NOAUTH", "WRONGPASS", "NOPERM",
}

// faultOf says what an error means. A nil of Redis is no error here: scripts do
// not return it where one is looked for.
func faultOf(err error) fault {
	if err == nil {
		return faultNone
	}
	_, ok := rueidis.IsRedisErr(err)
	switch {
	case errors.Is(err, errReply), errors.Is(err, errForeign):
		return faultItem
	case !ok && errors.Is(err, context.DeadlineExceeded):
		return faultDeadline
	case !ok:
		return faultAway
	case refusalOf(err) == "NOSCRIPT":
		return faultScript
	case slices.Contains(cannotDecide, refusalOf(err)):
		return faultAway
	}
	return faultItem
}

// refusalOf is the first word of a server's answer that is an error, or that an error
// wraps; empty when it is none.
func refusalOf(err error) string {
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok || answer == rueidis.Nil {
		return ""
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	return word
}
