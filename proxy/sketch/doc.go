// Package sketch finds the busiest keys among any number of them, in constant memory.
//
// A [Sketch] is Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of
// Frequent and Top-k Elements in Data Streams, ICDT 2005): a counter for each of k keys.
// A key that is not among them replaces the one seen least, and takes over its count. So
// counts are never too small, and the possible excess of each is kept with it. A key with
// more than 1/k of all occurrences is always among them.
//
// Counters are sorted by count, in groups of equal ones. Counting a key swaps it to the
// head of its group and moves it to the next group: a constant number of steps for any k.
//
// All counts are halved once per half-life, so that a sketch shows the recent past:
// what was seen in the running half-life counts whole, in the one before by half,
// and so on.
//
// Each loop has its own sketches. A [View] is a copy of one, and [Merge] combines
// several. A [Board] has the sketches of a loop for all rules.
package sketch
