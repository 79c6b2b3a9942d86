// Package http1test supports tests of readers of HTTP/1.1. It splits input in various ways,
// records the results of an http1.Reader, and has a corpus of inputs with the expected
// verdicts. Its own Reader is an independent implementation for comparison.
//
// Splitting input must not change the result. ReadAllWays feeds the same bytes whole, byte by
// byte and in random pieces, and reports differences.
//
// The corpus has two parts. One is embedded. The other is in ../shared/http-corpus, relative
// to the folder of go.mod, and is used if it exists.
package http1test
