// Package limit decides whether a key may spend a cost at a given time.
//
// A [Limit] is the numbers and the algorithm, a [State] is what one key has consumed, and
// [Limit.Take] computes a [Decision] from the two and the current time. The package has
// no clock, no lock and no state. Stores keep the states. A script inside Redis does the
// same arithmetic and gets the same results, because every number is an integer that a
// float64 represents exactly (below 2^53).
//
// # Time
//
// Instants are microseconds since the Unix epoch. For a key, time never runs backwards: a call counts as made
// at max(the state's instant, now), so a clock that steps back creates no permits. A clock that was wrong and
// is set back must not block keys for long. So if the state lies further ahead of now than the key takes to
// recover, what it has consumed counts as consumed now. RetryAfter and ResetAfter count from the now of the
// caller.
//
// # Algorithms
//
//   - [Fixed]: at most limit permits in each window; windows are aligned to the
//     epoch. Twice the limit may pass around a boundary.
//   - [Sliding]: the previous window counts too, with the share of it that still
//     lies within one window of now.
//   - [Token]: a bucket that holds capacity tokens, starts full and is refilled
//     at fillRate.
//   - [SlidingLog]: at most limit permits in any span as long as the window, to
//     the microsecond. It remembers each instant at which something was admitted,
//     which costs memory: see [LogMax].
//   - [GCRA]: one permit each window/limit, burst of them early. "Once in 3
//     seconds" is limit 1, window 3.
//   - [Leaky]: GCRA used as a queue of capacity places that empties at fillRate,
//     in addition to the request that passes at once. [Decision.Delay] is how
//     long an admitted request must wait.
//   - [Off]: no limit, and no state.
//
// # Conditions
//
// A [Charge] may require that some permits are left ([Charge.Reserve]), so that lower classes
// are refused first, and that the wait is short ([Charge.MaxDelay]). A soft limit may be
// exceeded for a while ([Limit.WithSoft]). A cost that is known only when a request has been
// served is charged even beyond the limit ([Charge.Debt]). A request that was admitted and is given
// up returns what it was charged, as far as that cannot admit too much ([Limit.Refund]).
//
// An algorithm consists of the meaning of its State and a few small functions. To add one, add a
// file with these functions, its fields in [Config], and a case in each switch over the
// algorithms.
//
// # Changes
//
// New amounts apply to the existing states of keys. The algorithm and the window, the kind of
// limits, are part of the name that a key has in a store. So proxies that disagree during a
// roll-out admit at most the sum of their limits. token and gcra keep the permits that are used
// and not yet refilled. After the capacity was reduced, a key may therefore have none left for a
// while. For token this takes no longer than the old bucket would have taken to fill.
//
// A configuration that integers cannot represent exactly is rejected. [Limit.Decide] decides n
// requests of one cost at once, in constant time, exactly as n single calls would.
package limit
