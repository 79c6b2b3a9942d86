// Package session is the data path: one client connection of the proxy, told
// what happened and what time it is, answering with what to do. It reads
// requests, asks the limiter, forwards what may pass and relays the answer; it
// touches no socket, clock, goroutine or log.
//
// One exchange at a time goes through these states, in this order; the next
// request on the connection is read when the exchange is over:
//
//	reading ──▶ deciding ──▶ body ──▶ acquiring ──▶ awaiting ──▶ reading
//	    │           │          │          │             │
//	    │           ▼          ▼          ▼             ▼
//	    │        refused    413, 408   502, 503    502, 504, or one retry
//	    ├──▶ ownBody ──▶ own ──▶ reading          (the proxy's own endpoints)
//	    └──▶ closing                              (what cannot be read: 4xx)
//
// The decision comes before the body: a refused upload is answered without
// being read. Bodies are collected up to a bound in both directions, so that an
// answer that breaks off can still become a 502.
//
// The owner calls one Handle method at a time and then does what Effects says.
package session
