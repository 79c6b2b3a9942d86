// Package exchange is the data path: one request with its answer as a state machine, which
// is given events and their times, and returns what to do. It decides about the request,
// forwards it if it is admitted, and relays the answer. It uses no sockets, clocks,
// goroutines or logs, and does not depend on connections.
//
// A carrier feeds exchanges: an HTTP/1.1 connection (package session) one after another, a
// stored request just one. The carrier reads the request and calls HandleHead, HandleBody
// while Reads returns true, and HandleBodyEnd. For a request that is Refused it calls
// HandleUnread, with whether the body has been received. The answer is written as an
// HTTP/1.1 message. After each call, Effects contains what to do, and End returns how the
// exchange has ended.
//
// A request, its upstream connection and its answer each have their own states; the tables
// requestSteps, upstreamSteps and answerSteps say what changes them.
//
// The decision precedes the body: a refused upload is answered without being read. Small
// bodies are collected in both directions, so that an answer that is cut off can still
// become a 502. A request that streams acquires an upstream connection immediately, and is
// read while it holds one. HandleClientFull and HandleTargetFull report that one side
// accepts no data; the exchange then reads nothing from the other. After a switch of
// protocols it holds the upstream connection of the tunnel until EndTunnel.
package exchange
