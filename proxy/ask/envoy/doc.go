// Package envoy implements the decisions of Envoy's rate limit service: from a request to
// the asks for a store, and from the store's answers to a response. It is independent of
// the encoding of messages and of connections.
//
//	rls.Request ─▶ Evaluation.Begin ─▶ Refunds: keys that get hits back, before all else
//	                         └─▶ Asks ─▶ a store ─▶ Evaluation.AddAnswer, for each
//	                                                     └─▶ Evaluation.Respond ─▶ rls.Response
//
// The semantics are those of envoyproxy/ratelimit, with these differences:
//
//   - refused hits are not charged, except those of a descriptor that says itself how many they are:
//     they may be the cost of a request that has been served, and count in full ([Settings].DebtMax);
//   - with [Settings].Together nothing is charged if any enforced limit refuses;
//   - keys contain the lengths of their parts;
//   - the time is that of the store;
//   - a descriptor whose hits_addend is 0, which charges nothing, is refused if no permit is left;
//     envoyproxy/ratelimit refuses it only if a request was refused before;
//   - the time until the reset of a refused descriptor is that until the request would be admitted.
//
// A test of package proxy builds envoyproxy/ratelimit (bench/limits/decision/ratelimit, a module of
// its own) and compares the two.
package envoy
