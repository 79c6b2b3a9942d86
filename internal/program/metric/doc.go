// Package metric counts what a program does, and exposes the counts to Prometheus.
//
// Counting and exposition are separate. The types that count ([Counter], [Gauge], [Histogram],
// [Max]) are a few atomic words. An event loop updates its own without waiting, and nothing else
// happens on the data path. A [Set] has the names, and reads the values only when they are
// scraped, through functions. A metric of several loops is therefore one counter per loop, and
// the function that reads them returns the sum.
//
// A Set is based on that of github.com/VictoriaMetrics/metrics, which also has the metrics of the
// Go runtime and of the process. The histograms of that package lock a mutex for each update, and
// a loop must not wait for a lock. The histograms of this package do not lock.
//
// Names and labels are those of the text exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). Labels never have values that
// clients choose, since they must be few and bounded.
package metric
