// Package session is how HTTP/1.1 carries exchanges: one client connection of the proxy,
// fed with what happened and what time it is, answering with what to do. It reads requests
// and brings them to its exchange (package exchange), one at a time: the next request is
// read when the answer to the last is written. It keeps the connection between exchanges,
// ends it, and passes bytes on after a switch of protocols, until both sides have ended.
//
// A client that sends no more may still read: a request that is whole is answered, then
// the connection closes.
//
// The owner calls one Handle method at a time and then does what Effects says.
package session
