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
// A snapshot more than an hour ahead of the newest or behind it (five minutes ahead while
// other proxies report) is of another time, and is refused. Another time is accepted when
// two snapshots in a row agree on it, or three if it is past. While proxies of the
// current time report, these must also have become silent, or be fewer than those of the
// other time. A time up to five weeks ahead means a pause, and what is known is kept. Any
// other starts with an empty memory.
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
