// Package metric counts what a program does and shows it to Prometheus.
//
// Counting and showing are apart. The types that count (Counter, Gauge,
// Histogram, Max) are a few atomic words: an event loop writes its own without
// ever waiting, and nothing else happens on the data path. A Set knows the
// names: it is given a function or the parts to read and asks for the values
// only when they are scraped. A figure that several loops share is therefore
// one counter per loop, summed by the reading function.
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
