package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/internal/program/metric"
	"weir/proxy/limit"
	"weir/proxy/store/simredis"
)

// samples returns the lines of a scrape without comments.
func samples(set *metric.Set) string {
	var text bytes.Buffer
	set.Write(&text)
	var lines []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestGauges(t *testing.T) {
	r := start(t, new(simredis.DocumentStore))
	set := metric.New()
	r.RegisterMetrics(set)
	for _, test := range []struct {
		config limit.Config
		active string // algorithm
		values []any  // limit twice, window, capacity, fill rate
	}{
		{limit.Config{Algorithm: limit.Fixed, Limit: 7, Window: 0.5, Capacity: 9}, "fixed", []any{7, 7, 0.5, 0, 0}},
		{limit.Config{Algorithm: limit.Token, Capacity: 200, FillRate: 12.5}, "token", []any{12.5, 12.5, 0, 200, 12.5}},
	} {
		want := fmt.Sprintf(`ratelimiter_config_unstored{document="config"} 0
ratelimiter_current_limit %v
rate_limit_current_limit %v
ratelimiter_window_seconds %v
ratelimiter_bucket_capacity %v
ratelimiter_token_fill_rate %v
`, test.values...)
		for _, name := range []string{"fixed", "sliding", "token", "sliding_log", "gcra", "leaky", "off"} {
			on := 0
			if name == test.active {
				on = 1
			}
			want += fmt.Sprintf("rate_limit_algorithm{algorithm=%q} %d\n", name, on)
		}
		r.must(change(test.config))
		if got := samples(set); got != want {
			t.Errorf("%+v:\n%s\nwant:\n%s", test.config, got, want)
		}
	}
}

// The gauge says whether others, and this proxy after a restart, have what is in force.
func TestUnstoredGauge(t *testing.T) {
	f := newFleet(t, "a", "b")
	set := metric.New()
	f.of["a"].RegisterMetrics(set)
	for _, step := range []struct {
		script string
		want   string
	}{
		{"round", "0"},
		{"a set 7; round", "0"},
		{"a away; a set 8", "1"},
		{"a back; round", "0"},
		{"flush; a readonly; a sync", "1"},
		{"a back; a sync", "0"},
		{"garbage ?; round", "1"},
		{"b set 9; round", "0"},
		{"a away; a delete", "1"},
		{"a back; round", "0"},
		{"foreign hello; round", "1"},
		{"flush; round", "0"},
	} {
		f.play(step.script)
		if got := samples(set); !strings.Contains(got, `ratelimiter_config_unstored{document="config"} `+step.want) {
			t.Errorf("after %q, want %s:\n%s", step.script, step.want, got)
		}
	}
}

// Gauge and health say that a file as it is now is not in force.
func TestFileIgnoredGauge(t *testing.T) {
	prep := &ruleRig{asker: asker{t: t}, dir: t.TempDir()}
	prep.write("rules.yaml", oneRule("a", 1))
	prep.write("clients.json", acmeOnly)
	r := mustStartRules(t, prep.dir, RuleFiles{Rules: "rules.yaml", Clients: "clients.json"}, new(simredis.DocumentStore))
	set := metric.New()
	r.Rules.RegisterMetrics(set)
	for _, step := range []struct{ file, text, want, setting string }{
		{"rules.yaml", oneRule("a", 2), "0", ""},
		{"rules.yaml", "rules: 1", "1", "RULES_FILE"},
		{"rules.yaml", oneRule("a", 2), "0", ""},
		{"clients.json", "?", "1", "CLIENTS_FILE"},
		{"rules.yaml", oneRule("a", 3), "1", "CLIENTS_FILE"},
		{"clients.json", acmeOnly, "0", ""},
	} {
		r.write(step.file, step.text)
		r.refresh(epoch)
		if got, want := samples(set), "ratelimiter_rules_file_ignored "+step.want+"\n"; got != want {
			t.Errorf("with %s of %q: %s, want %s", step.file, step.text, got, want)
		}
		want := `{"status":"UP"}`
		if step.want == "1" {
			want = fmt.Sprintf(`{"status":"DOWN","setting":%q}`, step.setting)
		}
		if got, err := json.Marshal(r.Rules.Health()); err != nil || string(got) != want {
			t.Errorf("with %s of %q the health is %s, %v, want %s", step.file, step.text, got, err, want)
		}
	}
}
