package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"weir/proxy/store"
)

// Errors of one group.
var (
	errReply   = errors.New("the script's reply has an unexpected form")
	errForeign = errors.New("WRONGTYPE a key holds something other than the state of a limit")
)

// errUnavailable is the error of calls while there is no connection.
var errUnavailable = errors.New("redis is unavailable")

// cannotDecide are the codes of errors that a server returns for every call during some time:
// it is loading, a replica, out of memory, running an endless script, and the like.
var cannotDecide = []string{
	"LOADING", "READONLY", "MASTERDOWN", "OOM", "BUSY", "MISCONF", "NOREPLICAS",
	"CLUSTERDOWN", "NOAUTH", "WRONGPASS", "NOPERM",
}

func (be *backend) Classify(err error) store.Fault {
	if errors.Is(err, context.Canceled) {
		return store.Fault{} // this side has given up
	}
	return faultOf(err, be.inCluster())
}

// classOf returns the class of an error on this connection.
func (be *backend) classOf(err error) store.ErrorClass { return classOf(err, be.inCluster()) }

// inCluster reports whether the connection is, or without a connection might be, one to a
// Cluster.
func (be *backend) inCluster() bool {
	conn := be.conn.Load()
	return conn == nil || (*conn).Mode() == rueidis.ClientModeCluster
}

// faultOf classifies an error on a connection; cluster says whether it is to a Cluster.
func faultOf(err error, cluster bool) store.Fault {
	return store.Fault{Class: classOf(err, cluster), Code: refusalOf(err), Permanent: misconfigured(err)}
}

// classOf returns the class of an error. MOVED on a connection to a single server is an
// outage, because a node of a Cluster decides only about some keys. A nil reply is not
// considered: scripts do not return it.
func classOf(err error, cluster bool) store.ErrorClass {
	if err == nil {
		return store.NoFault
	}
	_, answered := rueidis.IsRedisErr(err)
	switch {
	case errors.Is(err, errReply), errors.Is(err, errForeign):
		return store.ItemFault
	case !answered && errors.Is(err, context.DeadlineExceeded):
		return store.TimeoutFault
	case !answered, slices.Contains(cannotDecide, refusalOf(err)), moved(err) && !cluster:
		return store.OutageFault
	}
	return store.ItemFault
}

// permanent are prefixes of errors that persist until an operator changes something. The
// library removes "ERR ".
var permanent = []struct {
	begins string
	cause  store.MisconfigCause
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

// unknownScript reports whether a call was not executed because the server does not have the
// script.
func unknownScript(err error) bool { return refusalOf(err) == "NOSCRIPT" }

// refusalOf returns the code, which is the first word, of a server's error that err is or
// wraps, or "" if there is none.
func refusalOf(err error) string {
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok || answer == rueidis.Nil {
		return ""
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	return word
}
