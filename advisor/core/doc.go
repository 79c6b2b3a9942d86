// Package core is the advisor's thinking, without HTTP, files or a clock: it is fed
// the proxies' snapshots and answers each with a recommendation.
//
//	snapshot ─▶ clock    is this the time we are in?
//	            doubt    can its rate be believed?
//	            fleet    adds up the proxies, a round at a time
//	            forecast ◀── the sum ──▶ policy ──▶ recommendation, track
//
// The only clock is the snapshots', so a recording can be replayed at any speed.
//
// # Time that jumps
//
// A snapshot more than an hour ahead of the newest, or behind it, is of another time
// (five minutes ahead while other proxies report). It is refused. Another time is
// believed when two snapshots in a row agree on it, three when it is past; while
// proxies of our time report, when they have become silent, or fewer than those of
// the other. A time up to five weeks ahead is the end of a silence, and what is known
// outlives it. Any other begins with an empty memory.
//
// # Rates that jump
//
// A rate of more than twenty times the largest of the last week is believed when a
// second snapshot confirms it.
//
// # Several proxies
//
// Proxies that share a store enforce one limit together. Those with a store of their
// own each enforce theirs: their limits are added up, and each is answered with a part
// of what is recommended.
package core
