// Package session is the HTTP/1.1 carrier of exchanges. A [Session] is one client connection of
// the proxy as a state machine, which is given events and their times, and returns what to do. It
// reads requests and passes them to its exchange (package exchange), one at a time: it reads the
// next request when the answer to the previous one is written. It decides whether the connection
// continues after an exchange, and how it ends. After a switch of protocols it copies bytes until
// both sides have ended.
//
// An [Upstream] is a connection to a target. It also reads the answers of abandoned exchanges,
// whose clients have disconnected; an [AbandonedEnd] says how such an answer has ended.
//
// A client that half closes its connection may still read: a complete request is answered
// before the connection closes.
//
// The owner calls one Handle method at a time and then carries out the Effects.
//
// After a switch of protocols the end of each direction is forwarded separately. TunnelTimeout
// bounds how long a tunnel may be silent. Once one side has half closed, the bound is
// StreamTimeout, because only a write would detect that this side has disconnected.
package session
