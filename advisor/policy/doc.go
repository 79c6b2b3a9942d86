// Package policy recommends a limit: from what a proxy observed in the last interval and from a forecast,
// it computes which limit should be in force, for how long, and why.
//
// It starts from the limit in force, not from its own last recommendation, because that may have been
// clipped or overruled by an operator.
//
// # Terms
//
//	gate      of the proxy  adaptive limit of how many requests are in flight to a target
//	belief    capacity.go   probability distribution of the target's capacity: measured while a gate
//	                        holds requests back, otherwise only bounded by what was answered
//	proven    capacity.go   the highest rate that the target has answered well
//	hint      Settings      the capacity that the operator expects
//	ceiling   ceiling.go    the limit for a target behind a gate: a little above its capacity
//	bound     bound.go      the upper bound of the limits of new gates, which do not know the target yet
//	guard     guard.go      the limit for a target without a gate, from the response times and errors of
//	                        the last interval
//
// # Guarantees
//
// For every input, the recommendation
//
//   - lies in [Settings.LimitMin, Settings.LimitMax], which precedes everything below;
//   - has the algorithm in force, finite numbers, and counts in whole permits;
//   - depends only on the settings, the state and the two arguments;
//   - repeats the limit in force if that limit is off, if it did not decide what was forwarded
//     ([Snapshot.Mode]), or if the snapshot is impossible.
//
// The limit rises only after responses that show a healthy target, by no more than a factor of two, and
// to no more than twice the proven rate, or to the hint if that is higher. A limit that was lowered
// because of a fault may return to its value before the fault.
//
// It falls by half at most, and only because the target is overloaded or its known capacity is lower.
//
// # Limits of the policy
//
//   - Behind a gate it does not use response times, because they mix all routes; the gate reacts to them
//     within a few responses.
//   - Behind a gate the hint is no upper bound: the rate that is answered well cannot exceed the limit, so
//     a hint that is too low would never be corrected.
//   - It does not probe while the demand is below the limit: a higher limit would show nothing.
//   - It learns from intervals in which the limit did not decide, but does not lower it because of them.
//   - It sets no quotas for classes and does not change the algorithm.
//
// docs/design/011-what-the-advisor-decides.md has the measurements.
package policy
