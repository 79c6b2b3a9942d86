// Package deferredtest contains tests of what every deferred.Queue guarantees: [Run] runs them
// against one. A [Storage] opens the queue and lets it crash, a [Flood] puts entries until it is stopped.
package deferredtest
