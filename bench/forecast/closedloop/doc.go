// Package closedloop simulates traffic, a limiter, the gate behind it, the advisor and the
// target in virtual time, to compare ways to protect a target. Requests arrive according
// to a trace, and clients retry when they are refused. The limit, the gate, the queue and
// the guard rails are those of the proxy's packages limit, gate, upstream and rails; the
// target is a queue with workers.
//
// Every request is simulated. The target's queue is first come, first served, so the wait
// of a request is known when it is sent: until the first worker is free. A request
// therefore costs a fraction of a microsecond, and hours of traffic about a second.
//
// A [Scenario] describes everything but the protection, such as the [Stage]s in which the
// target becomes slower or fails, a [Control] the protection, which a [Strategy] makes
// for a scenario, and [Run] returns a [Result]. Runs are deterministic: the same
// scenario, seed included, gives the same result, and every control receives the same
// first requests.
package closedloop
