// Package deferredtest holds what every deferred.Queue promises as tests: [Run] plays them
// against one.
package deferredtest
