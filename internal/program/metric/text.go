package metric

import (
	"fmt"
	"io"
	"strconv"
	"time"
)

// A family is the samples of one name that differ in their labels.
type family struct {
	name    string
	help    string // escaped
	kind    string // the word of its TYPE line
	samples []sample
}

// A sample is one line, or one group of lines, of a family.
type sample struct {
	labels string // with braces, or empty
	write  func(b *lines, labels string)
}

// lines is the text of one family while it is written.
type lines struct {
	name string
	text []byte
}

// writeFamilies is the metrics writer that the library's Set calls. It does not use the library's
// WriteCounterUint64 and similar functions, because they repeat the type before every sample and
// write no help text.
func (s *Set) writeFamilies(w io.Writer) {
	s.mu.Lock()
	families := make([]family, len(s.families))
	for i, f := range s.families {
		families[i] = *f // its samples are only appended to
	}
	s.mu.Unlock()

	var b lines
	for i := range families {
		families[i].appendTo(&b)
	}
	_, _ = w.Write(b.text) // see Write
}

// appendTo appends the family with its help text, its type and its samples. A family without
// samples is omitted.
func (f *family) appendTo(b *lines) {
	b.name = f.name
	start := len(b.text)
	b.text = fmt.Appendf(b.text, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
	empty := len(b.text)
	for _, s := range f.samples {
		s.write(b, s.labels)
	}
	if len(b.text) == empty {
		b.text = b.text[:start]
	}
}

func (l *lines) line(labels, value string) {
	l.text = fmt.Appendf(l.text, "%s%s %s\n", l.name, labels, value)
}

// number formats any value. strconv writes NaN and the infinities as the format requires.
func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// histogram appends the sum of parts: a `_bucket` line for each bound, whose labels are les,
// `_sum` in seconds, and `_count`.
func (l *lines) histogram(labels string, les []string, parts []*Histogram) {
	var count uint64
	var sum time.Duration
	for i, le := range les {
		for _, p := range parts {
			count += p.counts[i].Load()
		}
		l.text = fmt.Appendf(l.text, "%s_bucket%s %d\n", l.name, joined(labels, le), count)
	}
	for _, p := range parts {
		sum += p.Sum()
	}
	l.text = fmt.Appendf(l.text, "%s_sum%s %s\n%s_count%s %d\n", l.name, labels, number(sum.Seconds()), l.name, labels,
		count)
}

// leLabels returns the labels of all bounds, which are in nanoseconds, and of +Inf.
func leLabels(bounds []int64) []string {
	les := make([]string, 0, len(bounds)+1)
	for _, ns := range bounds {
		les = append(les, Labels("le", number(time.Duration(ns).Seconds())))
	}
	return append(les, Labels("le", "+Inf"))
}

// joined returns the labels of a and b, each with its braces or empty.
func joined(a, b string) string {
	switch {
	case a == "" || a == "{}":
		return b
	case b == "":
		return a
	}
	return a[:len(a)-1] + "," + b[1:]
}
