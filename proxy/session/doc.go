// Package session is the data path: one client connection of the proxy, told
// what happened and what time it is, answering with what to do. It reads
// requests, asks the limiter, forwards what may pass and relays the answer; it
// touches no socket, clock, goroutine or log.
//
// One exchange at a time goes through these states, in this order; the next
// request on the connection is read when the exchange is over:
//
//	reading ──▶ deciding ──▶ body ──▶ acquiring ──▶ awaiting ──▶ reading
//	    │           │          │          │          │     │
//	    │           ▼          ▼          ▼          │     ▼
//	    │        refused    413, 408   502, 503      │  502, 504, one retry, or
//	    │                                            ▼  an answer cut short
//	    ├──▶ ownBody ──▶ own ──▶ reading           tunnel
//	    └──▶ closing                              (what cannot be read: 4xx)
//
// The decision comes before the body: a refused upload is answered without
// being read. Small bodies are collected in both directions, so that an answer
// that breaks off can still become a 502. A large request body streams: body
// is left for acquiring as soon as it shows, and the rest is read in awaiting.
// A large answer, or one whose length is not known, is relayed as it comes.
// HandleClientFull and HandleTargetFull say when one side takes nothing, and
// the session then wants nothing from the other. After a switch of protocols
// the session is a tunnel until both sides have ended. A client that sends no
// more may still read: a request that is whole is answered, then the connection
// closes.
//
// The owner calls one Handle method at a time and then does what Effects says.
package session
