// Package envoy implements the decisions of Envoy's rate limit service: from a request to
// the asks for a store, and from the store's answers to a response. It is independent of
// the encoding of messages and of connections.
//
//	rls.Request ─▶ Case.Open ─▶ Gives: keys that get hits back, before all else
//	                        └─▶ Asks ─▶ a store ─▶ Case.Take, for each
//	                                                    └─▶ Case.Judge ─▶ rls.Response
//
// The semantics are those of envoyproxy/ratelimit, with these differences: refused hits
// are not charged; with [Settings].Together nothing is charged if any enforced limit
// refuses; keys contain the lengths of their parts; and time is the store's. A look,
// which is charged 0, is refused if nothing is left, and not only if something was
// refused before; with Together it is never refused.
//
// A test of package proxy builds envoyproxy/ratelimit (bench/limits/decision/ratelimit, a module of
// its own) and compares the two.
package envoy
