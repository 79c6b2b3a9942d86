// Package http1test helps to test whatever reads HTTP/1.1: it splits input in
// every way, records what an http1.Reader says about it, and knows a corpus of byte
// strings with the verdicts that a proxy owes them. Its own Reader is a second opinion.
//
// A law holds everywhere: splitting input changes nothing. ReadAllWays feeds
// the same bytes whole, byte by byte and at random places and complains when
// the records differ.
//
// The corpus has two parts. One is embedded and always there. The other is
// found beside the repository, in ../shared/http-corpus as seen from the
// folder of go.mod, and used when it is.
package http1test
