// Package store is the contract between the proxy and the store that keeps the states of
// its keys: the in-process table of store/simredis, Redis, or another. A [Store] is what
// the proxy uses, each of its event loops through a [Lane]. A [Backend] is what a
// database must provide for store/lane to make a Store from it.
//
// An [Ask] gets one [Answer]. One ask is about N requests that need the same group of counters,
// which are decided together. A request is admitted if every counter of the group admits it; if
// any refuses, nothing is charged to any. The answer is the same as if each request had been
// asked about alone, one after another at the same instant. The suite in store/storetest checks
// that for every store.
//
// A counter may be a queue (leaky). An admitted request has then booked a place in it, and waits
// for [Answer.Delay] until its slot is due. If its client disconnects before that, Refund gives
// the place back if it is the last one. Other places stay booked, because the slots of later
// requests do not change. Refund also gives back what other counters were charged for a request
// that is not sent to a target; see [limit.Limit.Refund].
//
// A [Mode] says how an answer was reached: without its store a proxy still decides, and admits,
// refuses, or counts alone.
//
// Proxies that share a store also share documents, such as the limit and the rules: see
// [DocumentStore]. Work that only one proxy should do is done by the one that holds a lease.
//
// A fault that only an operator can repair (user, password, rights, database, another program) is
// a [MisconfiguredError] in every store. It makes a program that starts exit. A backend
// classifies its other errors by their scope ([ErrorClass]).
//
// A [Refund] contains the instant of the charge by the store's clock. It is sent at most once; if
// it is lost, the request stays charged. A request that a master has decided alone has no such
// instant.
package store
