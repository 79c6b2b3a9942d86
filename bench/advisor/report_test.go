package advisor

import (
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/bench/closedloop"
	"weir/bench/result"
)

// sample is a world played by all, small.
func sample(t *testing.T) ([]*played, []closedloop.Contestant) {
	t.Helper()
	all := synthetic()[:1]
	z := size{"test", 2 * time.Minute, 2 * time.Hour, 2 * time.Minute, 1, 1, 0}
	var scenarios []*closedloop.Scenario
	for i := range events {
		if name := events[i].name; name == "known" || name == "no hint" || name == "fault" {
			scenarios = append(scenarios, z.scenario(all, 0, i, 0))
		}
	}
	contestants := closedloop.Contestants()
	plays, err := play(context.Background(), scenarios, contestants, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return plays, contestants
}

func TestReport(t *testing.T) {
	plays, contestants := sample(t)
	var out strings.Builder
	verdicts := report(&out, plays, namesOf(contestants))
	text := out.String()
	for _, part := range []string{"### Closed loop: 3 scenarios", "| perfect gate | 0.0 (0.0) |", "| limit and gate |", "by event", "no hint (1)", "by trace", "day and night (3)", "loses most", "### Acceptance"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if strings.Contains(text, "NaN") {
		t.Errorf("not a number in\n%s", text)
	}
	if len(verdicts) != 5 {
		t.Errorf("%d verdicts: %+v", len(verdicts), verdicts)
	}
	dir := t.TempDir()
	drawings, files, err := draw(plays, closedloop.Advisor(), dir)
	if err != nil || len(drawings) != 3 || len(files) != 9 {
		t.Fatalf("%d drawings, %d files, %v", len(drawings), len(files), err)
	}
	recorder := result.NewRecorder(time.Now(), io.Discard, "advisor", nil)
	if _, err := io.WriteString(recorder, text); err != nil {
		t.Fatal(err)
	}
	b := &book{Record: recorder.Record(time.Now(), nil), Size: "test", Seeds: 1, Verdicts: verdicts, Scenarios: entries(plays), Runs: drawings}
	if err := b.write(dir); err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"index.html":  {"<svg", "Limit against capacity", "limit and gate", "</html>"},
		"result.json": {`"cores"`, `"commit"`, `"seed": `, `"verdicts"`, `"goodput"`},
		"1-limit.svg": {"<svg"},
	} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(content), part) {
				t.Errorf("%s: no %q", name, part)
			}
		}
	}
	var log strings.Builder
	if err := printLog(&log, plays[0].Scenario, closedloop.Advisor()); err != nil || strings.Count(log.String(), "\n| ") < 3 {
		t.Errorf("the log: %v\n%s", err, &log)
	}
}

// A line is met up to its bound, and by the typical value.
func TestJudge(t *testing.T) {
	perfect := &closedloop.Result{Seconds: 3600, Good: 1000}
	world := func(good, overload int) *played {
		return &played{&closedloop.Scenario{}, map[string]*closedloop.Result{perfectName: perfect, advisorName: {Seconds: 3600, Good: good, Overload: overload}}}
	}
	find := func(plays []*played, part string) verdict {
		for _, v := range judge(plays, advisorName) {
			if strings.Contains(v.Line, part) {
				return v
			}
		}
		return verdict{Value: math.NaN()}
	}
	for _, test := range []struct {
		plays []*played
		part  string
		value float64
		met   bool
	}{
		{[]*played{world(990, 0)}, "loss", 1, true},
		{[]*played{world(989, 0)}, "loss", 1.1, false},
		{[]*played{world(980, 0), world(1000, 0)}, "loss", 1, true},
		{[]*played{world(1000, 5)}, "overload", 5, true},
		{[]*played{world(1000, 5), world(1000, 7)}, "overload", 6, false},
	} {
		if v := find(test.plays, test.part); math.Abs(v.Value-test.value) > 1e-9 || v.Met != test.met {
			t.Errorf("%s: %.3f, met %v; want %.3f, %v", test.part, v.Value, v.Met, test.value, test.met)
		}
	}
}
