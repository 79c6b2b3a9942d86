// Package asks encodes batches of asks, which a proxy sends to another one to decide, and their
// answers. Numbers are little endian; texts and states are preceded by their length.
//
//	batch     u8 version, u16 refunds, {counter, i64 slot}, u16 asks, {u32 n, u8 counters, {counter}}
//	counter   u16 rule, u32 key, u8 algorithm, i64 permits burst number overshoot grace cost reserve delay, [i64 debt]
//	answer    u8 version, u8 mode, u16 asks, {u8 mode, u32 granted, u8 traces, {i64 at, u32 state}}
//
// Durations are in microseconds. A counter has a debt if the highest bit of its algorithm is set.
// Counters that are off are not sent, because they have no state. A slot is the instant of the
// charge that a refund is about. The traces of an answer are the state of each counter's key
// before the decision, one for each counter, from which the asking proxy computes the decision
// about each of the n requests; granted is how many of these are admitted.
//
// The asking proxy also polls [Fingerprints], which show that a document (the limit or the
// rules, which the proxies share) has changed.
package asks
