package deploy

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// A rule is one that records or alerts, with the name of its file.
type rule struct {
	file                     string
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	for _, name := range glob(t, "prometheus/rules/*.yml") {
		var f struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
		if err := yaml.Load([]byte(read(t, name)), &f, yaml.WithKnownFields()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				r.file = name
				all = append(all, r)
			}
		}
	}
	return all
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no file, %v", pattern, err)
	}
	return names
}

func TestPrometheusFiles(t *testing.T) {
	if !there(t, "promtool", "the files of Prometheus") {
		return
	}
	output(t, "promtool", "check", "config", "prometheus/prometheus.yml")
	output(t, append([]string{"promtool", "check", "rules", "--lint-fatal"}, glob(t, "prometheus/rules/*.yml")...)...)
}

func TestAlertsFire(t *testing.T) {
	if !there(t, "promtool", "whether alerts fire") {
		return
	}
	output(t, append([]string{"promtool", "test", "rules"}, glob(t, "prometheus/tests/*.yml")...)...)
}

// Every alert says what it means and what to do.
func TestAlertsAreExplained(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range rules(t) {
		if seen[r.Alert+r.Record] {
			t.Errorf("%s: %s%s is there twice", r.file, r.Alert, r.Record)
		}
		seen[r.Alert+r.Record] = true
		if r.Alert == "" {
			continue
		}
		if r.Annotations["summary"] == "" || len(strings.Fields(r.Annotations["runbook"])) < 8 {
			t.Errorf("%s: %s needs a summary and a runbook sentence", r.file, r.Alert)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: %s has severity %q, want critical or warning", r.file, r.Alert, s)
		}
	}
}

// series matches a series in an expression, with its matchers, but not the recorded ones.
var series = regexp.MustCompile(
	`(?:\b(?:ratelimiter|http|target|advisor|loadgen|go|process)_[a-z0-9_]+|\bup)\b(\{[^}]*\})?`)

// Other programs have series of the same names: each selector is about ours only, and each scrape
// sets the label that says so.
func TestRulesAreAboutOurs(t *testing.T) {
	const ours = `app="weir"`
	recorded := regexp.MustCompile(`weir:[a-z0-9_:]+`)
	for _, r := range rules(t) {
		for _, m := range series.FindAllStringSubmatch(recorded.ReplaceAllString(r.Expr, ""), -1) {
			if !strings.Contains(m[1], ours) {
				t.Errorf("%s: %s%s selects %s of any program: it needs %s", r.file, r.Alert, r.Record, m[0], ours)
			}
		}
	}
	config := read(t, "prometheus/prometheus.yml")
	if jobs, labels := strings.Count(config, "job_name:"), strings.Count(config, "labels: {app: weir}"); jobs == 0 ||
		labels != jobs {
		t.Errorf("%d of %d jobs of prometheus.yml set the label", labels, jobs)
	}
	for _, name := range glob(t, "kubernetes/base/*/*.yaml") {
		text := read(t, name)
		monitors := strings.Count(text, "kind: ServiceMonitor")
		if labels := strings.Count(text, "relabelings: [{targetLabel: app, replacement: weir}]"); labels != monitors {
			t.Errorf("%s: %d of %d ServiceMonitors set the label", name, labels, monitors)
		}
	}
}

// A testFile holds the fields of promtool's tests that are checked.
type testFile struct {
	Tests []struct {
		Name  string
		Exprs []struct {
			Expr    string
			Samples []any `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
	}
}

// For every alert there are tests in which it fires and in which it does not.
func TestAlertsAreTested(t *testing.T) {
	fires, quiet := make(map[string]bool), make(map[string]bool)
	for _, name := range glob(t, "prometheus/tests/*.yml") {
		var f testFile
		if err := yaml.Unmarshal([]byte(read(t, name)), &f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, test := range f.Tests {
			alert, verb, _ := strings.Cut(test.Name, " ")
			for _, e := range test.Exprs {
				if !strings.Contains(e.Expr, fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing"}`, alert)) {
					t.Errorf("%s: %s asks for %s", name, test.Name, e.Expr)
				}
				switch {
				case verb == "fires" && len(e.Samples) > 0:
					fires[alert] = true
				case strings.HasPrefix(verb, "is quiet") && len(e.Samples) == 0:
					quiet[alert] = true
				default:
					t.Errorf("%s: %q is neither \"… fires\" with samples nor \"… is quiet\" without", name, test.Name)
				}
			}
		}
	}
	alerts := 0
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		alerts++
		if !fires[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s is tested to fire: %t, to be quiet: %t; want both", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
	if alerts < 6 {
		t.Errorf("only %d alerts are found", alerts)
	}
}
