package speed

import (
	"strings"
	"testing"

	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
	"weir/proxy/rules/rule"
)

// costs are runs whose requests took so many microseconds each.
func costs(micros ...int) (runs []rig.Measurement) {
	for _, n := range micros {
		runs = append(runs, rig.Measurement{PerSecond: 1000, CPU: float64(n)})
	}
	return runs
}

// judged returns what is printed about runs with one rule and with all.
func judged(t *testing.T, one, all []rig.Measurement) (string, error) {
	return rigtest.Run(t, func(l *rig.Lab) {
		(&lab{Lab: l}).judgeRules([]string{"one", "all"}, [][]rig.Measurement{one, all})
	})
}

func TestJudgeRules(t *testing.T) {
	for _, test := range []struct {
		name     string
		one, all []rig.Measurement
		part     string // of the error; empty: none
	}{
		{"the same", costs(20), costs(20), ""},
		{"as much as allowed", costs(100), costs(110), ""},
		{"a little too much", costs(100), costs(111), "alone: 1.11,"},
		{"the median counts, of pairs", costs(10, 20, 90), costs(50, 21, 90), ""},
		{"and it is too much", costs(10, 20, 10), costs(10, 30, 30), "alone: 1.5,"},
	} {
		_, err := judged(t, test.one, test.all)
		resulttest.RequireError(t, test.name, err, test.part)
	}
}

func TestRulesTable(t *testing.T) {
	out, err := judged(t, costs(20, 10, 40), costs(21, 10, 44))
	want := "\n|  | one | all | ratio |\n| --- | --- | --- | --- |\n" +
		"| CPU µs per request | 20.00 | 21.00 | **1.05** (1.00 … 1.10) |\n" +
		"| requests/s | 1000 | 1000 | **1.00** (1.00 … 1.00) |\n\nPassed: "
	if err != nil || !strings.HasPrefix(out, want) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A run in which something else happened than what is measured is no run.
func TestProblem(t *testing.T) {
	for part, spoil := range map[string]func(d *decisions){
		"":                 func(*decisions) {},
		"of 0 requests":    func(d *decisions) { d.requests = 0 },
		"7 were refused":   func(d *decisions) { d.failed = 7 },
		"rule b decided 0": func(d *decisions) { d.rules["b"] = 0 },
		"expected 3000":    func(d *decisions) { d.all = 4000 },
	} {
		d := decisions{requests: 1000, all: 3000, rules: map[string]float64{"a": 1000, "b": 1000}}
		spoil(&d)
		resulttest.RequireError(t, "x", d.problem("x", 2*underWay), part)
	}
}

// The rules are ten, and the proxy takes them.
func TestTenRules(t *testing.T) {
	set, err := rule.Read([]byte(ten), rule.Options{})
	if err != nil || set.Len() != 10 {
		t.Fatalf("%v: %v", set, err)
	}
}
