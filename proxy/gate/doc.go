// Package gate bounds how many requests are at a target at a time, and moves the
// bound with every few answers, so that a target which becomes slower is not
// overrun. It needs to be told nothing about the target.
//
// # What it looks for
//
// A request that finds all workers of its target busy waits there, and so does
// every request with it: waiting adds the same time w to all answers. A target that
// has become slower multiplies all answers by the same factor f. So the quantiles of
// the answer times tell the two apart, compared with what they are when few
// requests are in flight:
//
//	quantile now = w + f × quantile when calm
//
// Two quantiles give w and f. The share of the answer time that is waiting,
// u = w ÷ mean, says by Little's law how many requests in flight are at work and not
// in line: in flight × (1 − u). That, and its square root, is the limit. It needs no
// target delay, holds for any number of uncoordinated gates, and leaves a target alone
// that is slow but not overrun.
//
// What answer times are like when calm is learned from the first requests, sent while few
// others were in flight, and corrected by short looks at the target with clearly fewer in
// flight than it can work on. The first look follows at once; until then there is no
// limit. The others begin at full seconds of the wall clock, so that gates which share a
// target look together.
//
// Where answer times hardly vary the two cannot be told apart. Then the gate looks at
// what a cut did: when far fewer are in flight and none is answered sooner, it was no
// queue, and the limit is restored.
//
// # What else it heeds
//
// Targets that refuse what they cannot take (429, 502, 503, 504) show no queue. When
// more than a few answers in a hundred are of that kind, the limit falls below where
// that began, and rises again slowly. When fewer in flight fail as often, it is a
// fault, which no gate cures: the limit is restored and errors are ignored for a while.
//
// While the limit does not bind it stays at half as much again as was in flight at most
// in the last minute, so that a sudden crowd passes. When a queue stands nevertheless,
// another proxy's gate holds back its requests alone, and the limit falls.
//
// Nothing here reads a clock. Every loop has a gate of its own for every target.
package gate
