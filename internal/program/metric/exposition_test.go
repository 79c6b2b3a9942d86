package metric

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A page is an exposition, read by the rules of the text format 0.0.4 more
// strictly than a scraper reads it: families are not split up, have exactly one
// HELP and one TYPE, before their samples; no sample is there twice.
type page struct {
	types   map[string]string
	help    map[string]string
	samples map[string]float64 // by name and labels as written
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:, ?|$)`)
)

// parsePage reads text, or says which line breaks which rule.
func parsePage(text string) (*page, error) {
	p := &page{types: map[string]string{}, help: map[string]string{}, samples: map[string]float64{}}
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line does not end")
	}
	var family string
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var err error
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			family, err = p.addHelp(rest)
		} else if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			err = p.addType(family, rest)
		} else {
			err = p.addSample(family, line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", i+1, line, err)
		}
	}
	return p, p.checkHistograms()
}

func (p *page) addHelp(rest string) (family string, err error) {
	family, help, _ := strings.Cut(rest, " ")
	if _, twice := p.help[family]; twice {
		return "", fmt.Errorf("second HELP of %s", family)
	}
	p.help[family] = help
	return family, nil
}

func (p *page) addType(family, rest string) error {
	name, kind, _ := strings.Cut(rest, " ")
	if name != family {
		return fmt.Errorf("TYPE of %s within %s", name, family)
	}
	if _, twice := p.types[name]; twice {
		return fmt.Errorf("second TYPE of %s", name)
	}
	switch kind {
	case "counter", "gauge", "histogram", "summary":
		p.types[name] = kind
		return nil
	}
	return fmt.Errorf("unknown type %q", kind)
}

func (p *page) addSample(family, line string) error {
	m := sampleLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("not a sample")
	}
	name := m[1]
	switch p.types[family] {
	case "":
		return fmt.Errorf("sample before TYPE")
	case "histogram", "summary":
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
	}
	if name != family {
		return fmt.Errorf("sample of %s within %s", name, family)
	}
	if _, err := parseLabels(m[2]); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(m[3], 64)
	if err != nil {
		return err
	}
	if _, twice := p.samples[m[1]+m[2]]; twice {
		return fmt.Errorf("sample is there twice")
	}
	p.samples[m[1]+m[2]] = value
	return nil
}

// parseLabels reads {a="b",c="d"}.
func parseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	for text != "" {
		m := labelPair.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("bad labels at %q", text)
		}
		if _, twice := labels[m[1]]; twice {
			return nil, fmt.Errorf("label %s is there twice", m[1])
		}
		labels[m[1]] = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(m[2])
		text = text[len(m[0]):]
	}
	return labels, nil
}

// checkHistograms checks that buckets grow along their bounds, end with +Inf,
// and that this is the count, where there is one.
func (p *page) checkHistograms() error {
	type series struct {
		bounds map[float64]float64
		labels string
	}
	all := map[string]*series{}
	for full, value := range p.samples {
		name, _, _ := strings.Cut(full, "{")
		labels := full[len(name):]
		family, isBucket := strings.CutSuffix(name, "_bucket")
		if !isBucket || p.types[family] != "histogram" {
			continue
		}
		parsed, err := parseLabels(labels)
		if err != nil {
			return err
		}
		le, err := strconv.ParseFloat(parsed["le"], 64)
		if err != nil {
			return fmt.Errorf("%s: le: %w", full, err)
		}
		rest := strings.Replace(labels, `le="`+parsed["le"]+`"`, "", 1)
		rest = strings.NewReplacer(",}", "}", "{}", "").Replace(rest)
		if all[family+rest] == nil {
			all[family+rest] = &series{map[float64]float64{}, family + "_count" + rest}
		}
		all[family+rest].bounds[le] = value
	}
	for key, s := range all {
		inf, ok := s.bounds[math.Inf(1)]
		if !ok {
			return fmt.Errorf("%s has no +Inf", key)
		}
		if count, ok := p.samples[s.labels]; ok && count != inf {
			return fmt.Errorf("%s: count %g, +Inf %g", key, count, inf)
		}
		for a, x := range s.bounds {
			for b, y := range s.bounds {
				if a < b && x > y {
					return fmt.Errorf("%s: %g up to %g but %g up to %g", key, x, a, y, b)
				}
			}
		}
	}
	return nil
}

// mustParse reads what s writes.
func mustParse(t *testing.T, s *Set) *page {
	t.Helper()
	var b strings.Builder
	s.Write(&b)
	p, err := parsePage(b.String())
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	return p
}

func TestParserRefuses(t *testing.T) {
	f := func(why, text string) {
		t.Helper()
		if _, err := parsePage(text); err == nil {
			t.Errorf("%s: accepted:\n%s", why, text)
		}
	}
	const head = "# HELP a h\n# TYPE a counter\n"
	f("no end of line", head+"a 1")
	f("no type", "# HELP a h\na 1\n")
	f("two types", "# HELP a h\n# TYPE a counter\n# TYPE a counter\n")
	f("two helps", head+head+"a 1\n")
	f("twice the same sample", head+"a 1\na 1\n")
	f("foreign sample", head+"b 1\n")
	f("unescaped quote", head+"a{x=\"\"\"} 1\n")
	f("no value", head+"a\n")
	const hist = "# HELP h h\n# TYPE h histogram\n"
	f("falling buckets", hist+"h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n")
	f("no +Inf", hist+"h_bucket{le=\"1\"} 2\nh_sum 1\nh_count 2\n")
	f("count is not +Inf", hist+"h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n")
}
