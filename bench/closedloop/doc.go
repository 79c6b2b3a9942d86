// Package closedloop plays traffic, a limiter, the gate behind it, the advisor and the
// target in virtual time, so that ways to protect a target can be compared: requests
// arrive as a trace says, clients that were refused come again, a limit of package
// limit admits, a gate of package gate and a pool of package upstream hold back, and a
// queue with workers answers. Advice passes the rails of package guard.
//
// Every request is played. The target's queue is first come, first served, so what a
// request waits there is known when it is sent: until the worker that is free first is
// free. That makes a request cost a fraction of a microsecond, and hours of traffic a
// second.
//
// A [Scenario] is the world, a [Control] is who chooses the limit and who else protects
// the target, and [Run] gives a [Result]. The same scenario, seed included, gives the
// same result, and the same first requests to every control.
package closedloop
