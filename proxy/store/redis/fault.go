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

// Classify says what an error means. See [store.Backend].
func (c *client) Classify(err error) store.Fault { return faultOf(err, c.inCluster()) }

// classOf is how far an error on this connection reaches.
func (c *client) classOf(err error) store.Class { return classOf(err, c.inCluster()) }

// inCluster reports whether the connection is one to a Cluster; without one it is not known
// not to be.
func (c *client) inCluster() bool {
	conn := c.conn.Load()
	return conn == nil || (*conn).Mode() == rueidis.ClientModeCluster
}

// faultOf says what an error means on a connection, to a Cluster or not.
func faultOf(err error, cluster bool) store.Fault {
	f := store.Fault{Class: classOf(err, cluster), Code: refusalOf(err)}
	if err != nil {
		f.Permanent = misconfigured(err)
	}
	return f
}

// classOf is how far an error reaches: one who talks to a node of a Cluster as to a single
// server can decide about some keys only, which is an outage. A nil of Redis is no error here:
// scripts do not return it where one is looked for.
func classOf(err error, cluster bool) store.Class {
	if err == nil {
		return store.NoFault
	}
	_, answered := rueidis.IsRedisErr(err)
	switch {
	case errors.Is(err, errReply), errors.Is(err, errForeign):
		return store.ItemFault
	case !answered && errors.Is(err, context.DeadlineExceeded):
		return store.LateFault
	case !answered, slices.Contains(cannotDecide, refusalOf(err)), moved(err) && !cluster:
		return store.OutageFault
	}
	return store.ItemFault
}

// unknownScript reports whether a call has not run because the server does not know the
// script.
func unknownScript(err error) bool { return refusalOf(err) == "NOSCRIPT" }

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
