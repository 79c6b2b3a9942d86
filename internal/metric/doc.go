// Package metric counts what a program does, and exposes the counts to Prometheus.
//
// Counting and exposition are separate. The types that count (Counter, Gauge, Histogram,
// Max) are a few atomic words: an event loop writes its own without waiting, and nothing
// else happens on the data path. A Set has the names. It reads the values through
// functions, or from parts, only when they are scraped. A metric of several loops is
// therefore one counter per loop, summed by the reading function.
//
// The Set is built over the one of github.com/VictoriaMetrics/metrics, which
// also brings the metrics of the Go runtime and of the process. Its histograms
// take a mutex per update, which a loop must not wait for; ours do not, and are
// written out through a metrics writer of the library's Set.
//
// Names and labels are those of the text exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). A label never
// carries anything that clients choose: its values must be few and bounded.
package metric
