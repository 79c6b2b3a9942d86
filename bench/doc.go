// Bench runs experiments with the whole system and prints their results.
//
// An experiment declares the programs that it needs ([weir/bench/lab/rig.Topology]), their load,
// what is done to them, and what is expected of the results. It prints Markdown, whose tables
// become records: so everything printed is kept with commit and machine, shown in BENCHMARKS.md
// between markers, and its ratios are compared with those of the last run.
//
// Only experiments with the advisor compress time: rates and the target's answer times are real,
// and ADAPTIVE_TIME_SCALE shortens the proxy's intervals. Compressing by much more than a hundred
// says little, because the target's queue then outlives a snapshot. Package overload/protect, which
// takes two hours, runs in real time and can be resumed: it records each run when it ends, under
// its commit.
package main
