// Package policy combines what a proxy observed and what a forecast expects into one
// recommendation: which limit should be in force now, for how long, and why.
//
//   - The belief (capacity.go) is a distribution over the target's capacity. While a gate
//     holds requests back the capacity is measured; otherwise answers only bound it. The
//     proof is the highest rate that the target has answered well.
//   - The ceiling (ceiling.go) is the limit of a target behind a gate: a little above
//     its capacity. The gate reacts within a few answers; while it is idle there is no
//     queue. Answer times are not used, because they mix all routes.
//   - The bound (bound.go) is for gates that have just begun, and do not know the target yet.
//   - The guard (guard.go) finds the limit of a target without a gate, from the answer
//     times and errors of the last interval.
//
// # Laws
//
// Whatever the input, a recommendation
//
//   - lies in [Settings.LimitMin, Settings.LimitMax], which take precedence over all else;
//   - rises to no more than the larger of the hint and twice the proven rate (no more can
//     be proven than is admitted), by no more than a factor of two, and only after answers
//     that show a healthy target. A limit that was lowered because of a fault is restored,
//     up to the limit before the fault;
//   - falls by half at most, and only because the target is overloaded or its known capacity
//     is lower;
//   - is the limit in force when that did not decide ([Snapshot.Mode]), when it is off, and
//     when the snapshot is impossible;
//   - has the algorithm in force, finite numbers, and counts in whole permits;
//   - depends on the settings, the state and the two arguments only.
//
// It starts from the limit that is in force, not from the previous recommendation, since
// the limit may have been changed or the recommendation clipped.
//
// # What it does not do
//
// Behind a gate, answer times are not used, and a hint does not bound the limit from above: a hint
// that is too low would never be corrected, because the rate that is answered well never exceeds
// the limit. It does not probe in quiet hours, when the demand does not reach the limit and a
// higher one would show nothing. It sets no quotas for classes and does not change the algorithm.
// Intervals in which the limit did not decide are learned from, but do not lower it.
// docs/design/011-what-the-advisor-decides.md has the measurements.
package policy
