// Package metric counts what a program does, and exposes the counts to Prometheus.
//
// Counting and exposition are separate. The types that count (Counter, Gauge, Histogram,
// Max) are a few atomic words: an event loop writes its own without waiting, and nothing
// else happens on the data path. A Set has the names. It reads the values through
// functions, or from parts, only when they are scraped. A metric of several loops is
// therefore one counter per loop, summed by the reading function.
//
// The Set uses that of github.com/VictoriaMetrics/metrics, which also has the metrics of the Go
// runtime and of the process. The histograms of that package take a mutex per update, for
// which a loop must not wait; ours do not, and are written by a metrics writer of the
// library's Set.
//
// Names and labels are those of the text exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). Labels never have values that
// clients choose, since they must be few and bounded.
package metric
