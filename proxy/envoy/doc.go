// Package envoy is what Envoy's rate limit service decides: from a request to what a store
// is asked, and from the store's answers to a response. It knows neither the form of the
// messages nor a connection.
//
//	rls.Request ─▶ Case.Open ─▶ Gives: keys that get hits back, before all else
//	                        └─▶ Asks ─▶ a store ─▶ Case.Take, for each
//	                                                    └─▶ Case.Judge ─▶ rls.Response
//
// The meaning is that of envoyproxy/ratelimit, with these differences: what is refused is
// not charged; with [Settings].Together nothing is charged when any enforced limit refuses;
// keys say how long their parts are; and time is the store's. A look, which is charged 0, is
// refused when nothing is left, and not only when something was refused before; with
// Together it never is.
package envoy
