// Package sketch finds the busiest keys among any number of them, in memory that
// does not grow.
//
// A [Sketch] is Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation
// of Frequent and Top-k Elements in Data Streams, ICDT 2005): a counter for each of
// k keys. A key that is not among them takes the place of the one seen least, and
// its count as well: so counts are never too small, and what each may be too large
// by is kept beside it. However many keys come, one that made up more than 1/k of
// all is there.
//
// Counters lie in the order of their counts and in groups of equal ones. Seeing a
// key once more swaps it to the head of its group and lets it pass to the next one:
// a fixed number of steps, whatever k is.
//
// All counts are halved once per half-life, so that a sketch shows the recent past:
// what was seen in the running half-life counts whole, in the one before by half,
// and so on.
//
// Loops keep sketches of their own; a [View] is one as a value, and [Merge] makes
// one of several. A [Board] is what a loop keeps of all rules.
package sketch
