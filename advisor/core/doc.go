// Package core is the advisor's logic, without HTTP, files or a clock. It is given the
// proxies' snapshots and answers each with a recommendation.
//
//	snapshot ─▶ clock    is it of the current time?
//	            doubt    is its rate plausible?
//	            fleet    adds up the proxies, a round at a time
//	            forecast ◀── the sum ──▶ policy ──▶ recommendation, track
//
// The only clock is the snapshots', so a recording can be replayed at any speed.
//
// # Time that jumps
//
// The current time is that of the newest snapshot. One that differs from it by more than an hour,
// or is more than five minutes ahead while other proxies report, is of another time and is refused,
// until that time is accepted:
//
//	the other time is      snapshots needed   what follows
//	up to 5 weeks ahead    2                  there was a pause: what is known is kept
//	further ahead          2                  the memory starts empty
//	past                   3                  the memory starts empty
//
// Snapshots must agree on the other time one after another, and the proxies of the current time must
// have become silent. It is also accepted when at least two proxies report it, and more than report
// the current time.
//
// # Several proxies
//
// Proxies that share a store enforce one limit together. Proxies with stores of their own
// enforce separate limits: the limits are added up, and each proxy gets a part of the
// recommendation.
//
// While a gate limits, a proxy reports about every 2 s: each report goes to the policy, and the
// forecast gets slots of the usual width.
package core
