package rules

import (
	"strings"
	"testing"
	"time"

	"weir/proxy/rule"
)

// good is a run whose requests took so many microseconds each.
func good(micros int) run {
	return run{requests: 1000, judged: 3000, rules: map[string]float64{"a": 1000, "b": 1000}, cpu: time.Duration(micros) * time.Millisecond, span: time.Second}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name  string
		pairs []pair
		part  string // of the error; empty: as it should be
	}{
		{"the same", []pair{{good(20), good(20)}}, ""},
		{"as much as allowed", []pair{{good(100), good(110)}}, ""},
		{"a little too much", []pair{{good(100), good(111)}}, "alone: 1.11,"},
		{"the median counts, of pairs", []pair{{good(10), good(50)}, {good(20), good(21)}, {good(90), good(90)}}, ""},
		{"and it is too much", []pair{{good(10), good(10)}, {good(20), good(30)}, {good(10), good(30)}}, "alone: 1.5,"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			err := judge(&out, "one", "all", test.pairs)
			if (err == nil) != (test.part == "") || err != nil && !strings.Contains(err.Error(), test.part) {
				t.Errorf("judged %v, want %q", err, test.part)
			}
			if strings.Contains(out.String(), "As it should be") != (err == nil) || strings.Count(out.String(), "\n| ") != 3 {
				t.Errorf("printed\n%s", &out)
			}
		})
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := judge(&out, "one", "all", []pair{{good(20), good(21)}, {good(10), good(10)}, {good(40), good(44)}}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"|  | one | all | ratio |\n", "| CPU µs per request | 20.00 | 21.00 | **1.05** (1.00 … 1.10) |\n", "| requests/s | 1000 | 1000 | **1.00** (1.00 … 1.00) |\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no line %q in\n%s", line, &out)
		}
	}
}

// A run in which something else happened than what is measured is no run.
func TestProblem(t *testing.T) {
	if err := good(1).problem("x"); err != nil {
		t.Errorf("a good run: %v", err)
	}
	for part, spoil := range map[string]func(r *run){
		"of 0 requests":     func(r *run) { r.requests = 0 },
		"7 were refused":    func(r *run) { r.failed = 7 },
		"rule b decided 0":  func(r *run) { r.rules["b"] = 0 },
		"it should be 3000": func(r *run) { r.judged = 4000 },
	} {
		r := good(1)
		spoil(&r)
		if err := r.problem("x"); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("want a problem with %q, got %v", part, err)
		}
	}
}

// The rules are ten, and the proxy takes them.
func TestTenRules(t *testing.T) {
	set, err := rule.Read([]byte(ten), rule.Options{})
	if err != nil || set.Len() != 10 {
		t.Fatalf("%v: %v", set, err)
	}
}
