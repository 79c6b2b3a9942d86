package metric

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/metrics"
)

// A Set has the metrics of one program: their names, help texts, and functions that read their
// values.
//
// Names include their labels: `ratelimiter_requests_total{decision="forwarded"}`. Samples of
// one family (the name without labels) have the help text of the first one and must have the
// same type. A malformed name, or one that is registered twice, panics. Labels escapes values.
//
// Reading functions are called at every scrape, on the goroutine that scrapes.
//
// Safe for concurrent use: a mutex guards the lists; values are read without it.
type Set struct {
	parent *Set   // not nil: everything is registered there
	label  string // with these labels in addition

	library *metrics.Set

	mu       sync.Mutex
	families []*family // in the order of their first registration
}

// New returns an empty Set.
func New() *Set {
	s := &Set{library: metrics.NewSet()}
	s.library.RegisterMetricsWriter(s.writeFamilies)
	return s
}

// With returns a view of s: what is registered with it has a label in addition, as the second of two equal things needs
// one. Only the methods that register may be called.
func (s *Set) With(label, value string) *Set { return &Set{parent: s, label: Labels(label, value)} }

// Counter registers a value that only increases.
func (s *Set) Counter(name, help string, read func() uint64) {
	s.register(name, help, "counter", func(b *lines, labels string) {
		b.line(labels, strconv.FormatUint(read(), 10))
	})
}

// Gauge registers a value that goes up and down.
func (s *Set) Gauge(name, help string, read func() float64) {
	s.register(name, help, "gauge", func(b *lines, labels string) {
		b.line(labels, number(read()))
	})
}

// Bool is the value of a gauge that says whether something is so: 1 or 0.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Counters registers a family whose labels change while the program runs, such as one sample per
// rule. name has no labels; each calls add for every sample, with its labels, made by Labels.
func (s *Set) Counters(name, help string, each func(add func(labels string, n uint64))) {
	s.register(name, help, "counter", func(b *lines, own string) {
		each(func(labels string, n uint64) { b.line(joined(own, labels), strconv.FormatUint(n, 10)) })
	})
}

// Gauges is like Counters, for values that go up and down.
func (s *Set) Gauges(name, help string, each func(add func(labels string, v float64))) {
	s.register(name, help, "gauge", func(b *lines, own string) {
		each(func(labels string, v float64) { b.line(joined(own, labels), number(v)) })
	})
}

// Histogram registers the sum of parts, which must have the same bounds.
func (s *Set) Histogram(name, help string, parts ...*Histogram) {
	if len(parts) == 0 {
		panic("bug: histogram " + name + " has no parts")
	}
	for _, p := range parts {
		if !slices.Equal(p.bounds, parts[0].bounds) {
			panic("bug: the parts of histogram " + name + " differ in their bounds")
		}
	}
	parts = slices.Clone(parts)
	les := leLabels(parts[0].bounds)
	s.register(name, help, "histogram", func(b *lines, labels string) {
		b.histogram(labels, les, parts)
	})
}

// Runtime adds the metrics of the Go runtime and of the process.
//
// It enables the library's TYPE lines for the whole process, so that these families have types
// like ours.
func (s *Set) Runtime() {
	metrics.ExposeMetadata(true)
	s.library.RegisterMetricsWriter(metrics.WriteGoMetrics)
	s.library.RegisterMetricsWriter(metrics.WriteProcMetrics)
	s.library.RegisterMetricsWriter(metrics.WriteFDMetrics)
}

// Write writes all metrics to w, which should be a buffer, since its errors are not reported.
func (s *Set) Write(w io.Writer) { s.library.WritePrometheus(w) }

// ContentType is the media type of the text that Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Labels returns the labels of a name, such as `{rule="api",decision="forwarded"}`, from
// alternating names and values. It escapes the values. Without pairs it returns "".
func Labels(pairs ...string) string {
	if len(pairs)%2 != 0 {
		panic("bug: label " + pairs[len(pairs)-1] + " has no value")
	}
	if len(pairs) == 0 {
		return ""
	}
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var labels []string
	for pair := range slices.Chunk(pairs, 2) {
		labels = append(labels, pair[0]+`="`+escaped.Replace(pair[1])+`"`)
	}
	return "{" + strings.Join(labels, ",") + "}"
}

// register adds one sample, or one group of samples, to its family.
func (s *Set) register(name, help, kind string, write func(b *lines, labels string)) {
	if err := metrics.ValidateMetric(name); err != nil {
		panic(fmt.Sprintf("bug: metric name %q: %v", name, err))
	}
	familyName, _, _ := strings.Cut(name, "{")
	labels := name[len(familyName):] // with their braces
	if s.parent != nil {
		s.parent.register(familyName+joined(labels, s.label), help, kind, write)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.family(familyName, help, kind)
	switch {
	case f.kind != kind:
		panic(fmt.Sprintf("bug: metric %q is a %s, its family is a %s", name, kind, f.kind))
	case slices.ContainsFunc(f.samples, func(one sample) bool { return one.labels == labels }):
		panic(fmt.Sprintf("bug: metric %q is registered twice", name))
	}
	f.samples = append(f.samples, sample{labels: labels, write: write})
}

// family returns the family with that name, and adds it if there is none.
func (s *Set) family(name, help, kind string) *family {
	if i := slices.IndexFunc(s.families, func(f *family) bool { return f.name == name }); i >= 0 {
		return s.families[i]
	}
	f := &family{name: name, help: strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help), kind: kind}
	s.families = append(s.families, f)
	return f
}
