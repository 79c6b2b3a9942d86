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

	"weir/bench/forecast/backtest"
	"weir/bench/forecast/closedloop"
	"weir/bench/lab/result"
	"weir/internal/test/testkit"
)

// sample returns small scenarios played by all strategies.
func sample(t *testing.T) ([]*played, []closedloop.Strategy) {
	t.Helper()
	all := synthetic()[:1]
	z := size{"test", 2 * time.Minute, 2 * time.Hour, 2 * time.Minute, 1, 1}
	var scenarios []*closedloop.Scenario
	for i := range events {
		if name := events[i].name; name == "known" || name == "no hint" || name == "fault" {
			scenarios = append(scenarios, z.scenario(all, 0, i, 0))
		}
	}
	strategies := closedloop.Strategies()
	return play(context.Background(), scenarios, strategies, io.Discard), strategies
}

func TestReport(t *testing.T) {
	plays, strategies := sample(t)
	var out strings.Builder
	report := &result.Report{Out: &out}
	show(report, plays, strategies)
	text := out.String()
	testkit.Contains(t, text, "### Closed loop: 3 runs", "| perfect gate | 0.0 (0.0) |", "| limit and gate |",
		"by event", "no hint (1)", "by trace", "day and night (3)", "loses most", "### Acceptance")
	if strings.Contains(text, "NaN") {
		t.Errorf("not a number in\n%s", text)
	}
	if n := strings.Count(text, "| none: seeds of each scenario: 1 |"); n != 4 {
		t.Errorf("%d verdicts in\n%s", n, text)
	}
	record := report.Record(time.Now(), nil)
	for _, s := range record.Sections {
		for _, table := range s.Tables {
			for _, cells := range table.Rows {
				if len(cells) != len(table.Columns) {
					t.Errorf("%s: %d columns %q, a row of %d: %q", s.Heading, len(table.Columns), table.Columns, len(cells), cells)
				}
			}
		}
	}
	dir := t.TempDir()
	drawings := draw(plays, closedloop.Advisor(), dir)
	if len(drawings) != 3 {
		t.Fatalf("%d drawings", len(drawings))
	}
	write(dir, record, drawings)
	for name, parts := range map[string][]string{
		"index.html":  {"<svg", "Limit against capacity", "limit and gate", "</html>"},
		"1-limit.svg": {"<svg"},
	} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		testkit.Contains(t, string(content), parts...)
	}
	var log strings.Builder
	printLog(&result.Report{Out: &log}, plays[0].Scenario, closedloop.Advisor())
	if strings.Count(log.String(), "\n| ") < 3 {
		t.Errorf("the log:\n%s", &log)
	}
}

func TestComparisons(t *testing.T) {
	list := []backtest.Comparison{{Trace: "t", Horizon: time.Minute, Own: backtest.Column{Name: "weir", WAPE: .2, RMSE: 3},
		Others: []backtest.Column{{Name: "prophet", WAPE: .4, RMSE: 6}, {Name: "theta", WAPE: .1, RMSE: 12}}}}
	for want, named := range map[string][]string{
		"| t | 1m0s | 0.2000 | 0.1000 | theta | 2.000 | 0.500 |\n":              nil,
		"| t | 1m0s | 0.2000 | 0.1000 | theta | 2.000 | 0.500 | 0.4000 | - |\n": {"prophet", "ets"},
	} {
		if text := comparisons(list, named...).String(); !strings.HasSuffix(text, want) {
			t.Errorf("with %q:\n%s", named, text)
		}
	}
}

// A bound is met if the worst seed meets it. With few seeds there is no verdict, and with the
// bound between the seeds it is open.
func TestJudge(t *testing.T) {
	perfect := &closedloop.Result{Seconds: 3600, Good: 1000}
	world := func(event string, good, overload int) *played {
		return &played{&closedloop.Scenario{Event: event}, map[string]*closedloop.Result{perfectName: perfect,
			advisorName: {Seconds: 3600, Good: good, Overload: overload}}}
	}
	good := func(list ...int) (plays []*played) {
		for _, n := range list {
			plays = append(plays, world("known", n, 1000-n))
		}
		return plays
	}
	both := good(980, 980, 980, 980, 980)
	for range 5 {
		both = append(both, world("fault", 1000, 0))
	}
	for _, test := range []struct {
		plays              []*played
		part               string
		value, least, most float64
		word               string
	}{
		{good(990), "loss", 1, 1, 1, "none: seeds of each scenario: 1"},
		{good(990, 990, 990, 990), "loss", 1, 1, 1, "none: seeds of each scenario: 4"},
		{good(1000, 999, 998, 997, 990), "loss", .2, 0, 1, "met"},
		{good(1000, 1000, 1000, 1000, 989), "loss", 0, 0, 1.1, "open"},
		{good(989, 980, 980, 980, 980), "loss", 2, 1.1, 2, "**not met**"},
		{good(995, 995, 995, 995, 995), "overload", 5, 5, 5, "met"},
		{both, "loss", 1, 1, 1, "met"},
		{append(both, world("drift", 1000, 0)), "loss", 2. / 3, 2. / 3, 2. / 3, "none: seeds of each scenario: 1"},
	} {
		found := false
		for _, v := range (&field{plays: test.plays}).judge(advisorName) {
			if !strings.Contains(v.Line, test.part) {
				continue
			}
			found = true
			if math.Abs(v.Value-test.value) > 1e-9 || math.Abs(v.Least-test.least) > 1e-9 ||
				math.Abs(v.Most-test.most) > 1e-9 || v.Word != test.word {
				t.Errorf("%d plays, %s: %+v, want %.3f of %.3f to %.3f, %s", len(test.plays), test.part, v, test.value,
					test.least, test.most, test.word)
			}
		}
		if !found {
			t.Errorf("no line about %s", test.part)
		}
	}
}
