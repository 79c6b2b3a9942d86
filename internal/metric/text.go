package metric

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A familyType is the word of a TYPE line.
type familyType string

const (
	typeCounter   familyType = "counter"
	typeGauge     familyType = "gauge"
	typeHistogram familyType = "histogram"
)

// A family is the samples of one name that differ in their labels.
type family struct {
	name    string
	help    string
	kind    familyType
	samples []sample
}

// A sample is one line, or one group of lines, of a family.
type sample struct {
	labels string // with braces, or empty
	write  sampleWriter
}

// A sampleWriter appends the lines of a sample.
type sampleWriter func(b *lines, labels string)

// lines is the text of one family while it is written.
type lines struct {
	name string
	text []byte
}

// writeFamilies is the metrics writer that the library's Set calls. The lines
// are made here rather than by the library's WriteCounterUint64 and similar:
// those repeat the family's type before every sample and know no help text.
func (s *Set) writeFamilies(w io.Writer) {
	s.mu.Lock()
	families := make([]family, len(s.families))
	for i, f := range s.families {
		families[i] = *f
		families[i].samples = slices.Clone(f.samples)
	}
	s.mu.Unlock()

	var b lines
	for i := range families {
		families[i].appendTo(&b)
	}
	_, _ = w.Write(b.text) // whoever scrapes may be gone; there is nobody to tell
}

// appendTo appends the family: its help, its type, its samples. A family that
// has no sample at the moment is left out.
func (f *family) appendTo(b *lines) {
	b.name = f.name
	start := len(b.text)
	b.text = append(b.text, "# HELP "...)
	b.text = append(b.text, f.name...)
	b.text = append(b.text, ' ')
	b.text = append(b.text, escapeHelp(f.help)...)
	b.text = append(b.text, "\n# TYPE "...)
	b.text = append(b.text, f.name...)
	b.text = append(b.text, ' ')
	b.text = append(b.text, f.kind...)
	b.text = append(b.text, '\n')
	empty := len(b.text)
	for _, s := range f.samples {
		s.write(b, s.labels)
	}
	if len(b.text) == empty {
		b.text = b.text[:start]
	}
}

// uint appends a sample with a whole value.
func (b *lines) uint(labels string, value uint64) {
	b.head("", labels)
	b.text = strconv.AppendUint(b.text, value, 10)
	b.text = append(b.text, '\n')
}

// float appends a sample with any value; NaN and the infinities have names in
// the format, the ones that strconv gives them.
func (b *lines) float(labels string, value float64) {
	b.head("", labels)
	b.text = strconv.AppendFloat(b.text, value, 'g', -1, 64)
	b.text = append(b.text, '\n')
}

// histogram appends the lines of the sum of parts. les are the `le` labels of
// the bounds.
func (b *lines) histogram(labels string, les []string, parts []*Histogram) {
	var count uint64
	var sum time.Duration
	for i, le := range les {
		for _, p := range parts {
			count += p.counts[i].Load()
		}
		b.head("_bucket", withLabel(labels, le))
		b.text = strconv.AppendUint(b.text, count, 10)
		b.text = append(b.text, '\n')
	}
	for _, p := range parts {
		sum += p.Sum()
	}
	b.head("_sum", labels)
	b.text = strconv.AppendFloat(b.text, sum.Seconds(), 'g', -1, 64)
	b.text = append(b.text, '\n')
	b.head("_count", labels)
	b.text = strconv.AppendUint(b.text, count, 10)
	b.text = append(b.text, '\n')
}

// head appends the start of a line, up to its value.
func (b *lines) head(suffix, labels string) {
	b.text = append(b.text, b.name...)
	b.text = append(b.text, suffix...)
	b.text = append(b.text, labels...)
	b.text = append(b.text, ' ')
}

// leLabels returns the label of every bound, given in nanoseconds, and of what
// is above them.
func leLabels(bounds []int64) []string {
	les := make([]string, 0, len(bounds)+1)
	for _, ns := range bounds {
		seconds := strconv.FormatFloat(time.Duration(ns).Seconds(), 'g', -1, 64)
		les = append(les, `le="`+seconds+`"`)
	}
	return append(les, `le="+Inf"`)
}

// withLabel adds one label to labels.
func withLabel(labels, label string) string {
	if labels == "" || labels == "{}" {
		return "{" + label + "}"
	}
	return labels[:len(labels)-1] + "," + label + "}"
}

// escapeLabel writes a label's value as the format wants it.
func escapeLabel(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)
}

// escapeHelp writes a help text as the format wants it.
func escapeHelp(text string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(text)
}
