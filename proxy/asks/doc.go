// Package asks is how one proxy asks another to decide: batches of asks and their
// answers as bytes. Numbers are little endian; a text or a state has its length in
// front.
//
//	question  u8 version, u16 releases, {counter, i64 slot}, u16 asks, {u32 n, u8 counters, {counter}}
//	counter   u16 rule, u32 key, u8 algorithm, i64 permits burst number overshoot grace cost reserve delay
//	answer    u8 version, u8 mode, u16 asks, {u8 mode, u32 granted, u8 traces, {i64 at, u32 state}}
//
// Spans are in microseconds. Counters that are off are not sent, as nothing is kept of
// them. With the state in which the key of each counter was found, the proxy that asked
// derives the answer to each of the n requests.
package asks
