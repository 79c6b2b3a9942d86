// Package closedloop plays a limiter, its clients and the service behind it in
// virtual time, so that ways to choose the limit can be compared: requests
// arrive as a trace says, clients that were refused come again, a limit of
// package limit admits, and a queue with workers answers.
//
// Every request is played. The queue is first come, first served, so what a
// request waits is known when it arrives: until the worker that is free first is
// free. That makes a request cost a tenth of a microsecond, and hours of traffic
// a second.
//
// A [Scenario] is the world, a [Control] is who chooses the limit, and [Run]
// gives a [Result]. The same scenario, seed included, gives the same result, and
// the same first requests to every control.
package closedloop
