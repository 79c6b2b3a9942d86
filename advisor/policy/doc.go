// Package policy turns what a proxy saw and what a forecast expects into one
// recommendation: which limit should be in force now, for how long, and why.
//
// A [Policy] is told a [Snapshot] (what arrived, what was let through, how the
// target answered, which limit is in force) and an [Outlook] (quantiles of the
// demand to come), and answers with a [Recommendation]. Four ideas work together:
//
//   - The belief (belief.go, evidence.go) is a distribution over the target's
//     capacity, learned from the rate that was let through, its p95 and its errors.
//     The best limit (capacity.go) hardly depends on the demand, but on what the
//     target can take.
//   - The guard (guard.go) looks at the newest snapshot and may only lower: at once
//     when the target suffers, and not when lowering does not help (fault.go).
//   - The plan (plan.go) starts raises early enough for a predicted rise, as far as
//     the target can take it, and starts lowering early enough for a predicted
//     overload, because one update may change the limit by so much only.
//   - The choice (algorithm.go) picks fixed, sliding or token by the traffic's
//     character, slowly, and the shape (limit.go) gives it the burst that the
//     target can absorb.
//
// # Guard rails
//
// Whatever the input, a recommendation
//
//   - lies in [Settings.LimitMin, Settings.LimitMax], which win over all else;
//   - is at most 25 % above and 30 % below the limit in force; at most 50 % below
//     it when the target suffers;
//   - changes the algorithm at most once in 10 minutes, and never with a raise of
//     more than 10 %;
//   - has finite, positive numbers, counts in whole permits;
//   - depends on the settings, the state and the two arguments only.
//
// It goes on from the limit that is in force, not from what it recommended before:
// somebody may have changed it, the proxy may have clipped it. A snapshot with
// impossible numbers changes nothing ([InvalidInput]). While the limiter is off it
// stays off ([LimiterOff]): somebody compares with no limit at all. The algorithms
// gcra, sliding_log and leaky are kept, because whoever chose one wanted a property
// that no other has; their rate moves like any other.
//
// Limits fall for four reasons only: the target suffers, it is known to take less, a
// predicted demand costs it more in refusals, or a bound says so. Unused headroom is
// none, and while the target is at ease a limit that binds does not fall, so that it
// cannot talk itself down by what it lets through.
//
// # Units
//
// Rates are permits per second, times are time.Duration, windows in a [Limit] are
// seconds as in its JSON.
package policy
