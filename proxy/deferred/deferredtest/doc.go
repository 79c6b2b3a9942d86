// Package deferredtest contains tests of what every deferred.Queue guarantees: [Run] runs them
// against one.
package deferredtest
