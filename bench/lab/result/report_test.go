package result

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/data/chart"
	"weir/internal/test/testkit"
)

func TestSpreadOf(t *testing.T) {
	same := func(v float64) float64 { return v }
	for want, vs := range map[string][]float64{
		"**2.00** (1.00 … 4.00)": {4, 1, 2}, "**1.50** (1.00 … 2.00)": {2, 1}, "**3.00** (3.00 … 3.00)": {3},
		"**NaN** (NaN … NaN)": nil,
	} {
		if got := SpreadOf(vs, same).Ratio(2); got != want {
			t.Errorf("%v: %q, want %q", vs, got, want)
		}
	}
	if got := RatioOf([]float64{9, 12, 10}, []float64{10, 10, 10}, same).Ratio(2); got != "**1.00** (0.90 … 1.20)" {
		t.Errorf("ratios %s", got)
	}
	if figures := []float64{4, 1, 2, 3}; Median(figures) != 2.5 || figures[0] != 4 || !math.IsNaN(Median(nil)) {
		t.Errorf("the median of %v is %v", figures, Median(figures))
	}
	if got, none := Mean([]float64{1, 2}), Mean(nil); got != 1.5 || none != 0 {
		t.Errorf("the mean of 1 and 2 is %v, that of nothing %v; want 1.5 and 0", got, none)
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		q    float64
		want int
	}{{0, 1}, {0.25, 1}, {0.26, 2}, {0.5, 2}, {0.99, 4}, {1, 4}} {
		if got := Quantile([]int{1, 2, 3, 4}, c.q); got != c.want {
			t.Errorf("%v: %d, want %d", c.q, got, c.want)
		}
	}
	if got := Quantile([]int(nil), 0.5); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestExpectations(t *testing.T) {
	var e Expectations
	e.AtMost("late", 0.5, 0.5)
	e.AtLeast("answered", 2, 2)
	e.Never(false, "%d failed", 0)
	var out strings.Builder
	report := &Report{Out: &out}
	if err := e.Conclude(report, "all is well.", nil); err != nil || out.String() != "\nPassed: all is well.\n" {
		t.Fatalf("%q, %v", out.String(), err)
	}
	e.AtMost("late", math.NaN(), 0.5)
	e.AtLeast("answered", 1, 2)
	e.Never(true, "%d failed", 3)
	want := []string{"late: NaN, expected ≤ 0.5", "answered: 1, expected ≥ 2", "3 failed"}
	if got := e.Missed(); strings.Join(got, ";") != strings.Join(want, ";") {
		t.Errorf("missed %q, want %q", got, want)
	}
	out.Reset()
	if err := e.Conclude(report, "", nil); !errors.Is(err, ErrMissed) || !strings.Contains(err.Error(), "3 failed") ||
		!strings.HasPrefix(out.String(), "\nFAILED:\n  late") {
		t.Errorf("%q, %v", out.String(), err)
	}
	if text := e.Figures().String(); !strings.Contains(text, "| answered | 1 | ≥ 2 | **missed** |") ||
		!strings.Contains(text, "| answered | 2 | ≥ 2 | met |") {
		t.Errorf("the table:\n%s", text)
	}
	doubt := errors.New("busy")
	if err := e.Conclude(report, "", doubt); !errors.Is(err, doubt) || !strings.Contains(out.String(), "\nInconclusive") {
		t.Errorf("in doubt: %v\n%s", err, out.String())
	}
}

func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "page.html")
	f := Figure{ID: "one", Label: "First"}
	plot := chart.Chart{Title: "Plot", Width: 580, Lines: []chart.Series{{X: []float64{0, 1}, Y: []float64{1, 2}}}}
	if err := errors.Join(f.Draw(plot, ""), f.Draw(plot, filepath.Join(filepath.Dir(path), "one.svg"))); err != nil {
		t.Fatal(err)
	}
	p := Page{Title: "A <title>",
		Chapters: []Chapter{{Name: "runs", Tables: []Table{{Columns: []string{"who"}, Rows: [][]string{{"**us**"}}}},
			Figures: []Figure{f}}}}
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	text := testkit.Must(os.ReadFile(path))(t)
	testkit.Contains(t, string(text), "A &lt;title&gt;", `<a href="#one">us</a>`, `id="one"`, "<svg")
	if svg, err := os.ReadFile(filepath.Join(filepath.Dir(path), "one.svg")); err != nil ||
		strings.Count(string(text), string(svg)) != 2 {
		t.Errorf("the plot's own file: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.part")); err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	p.Title = "Another"
	if err := errors.Join(os.Mkdir(path+".part", 0o700), p.Write(path)); err == nil {
		t.Error("a page was written where it cannot be")
	}
	if again, err := os.ReadFile(path); err != nil || string(again) != string(text) {
		t.Error("a page that could not be written took the place of the one before")
	}
}

func TestTable(t *testing.T) {
	table := NewTable("what | ms")
	table.Add("%s | %.1f", "idle", 2.04)
	if got := table.String(); got != "| what | ms |\n| --- | --- |\n| idle | 2.0 |\n" {
		t.Errorf("Markdown %q", got)
	}
	if got := table.Text(); got != "  what   ms\n  idle  2.0\n" {
		t.Errorf("text %q", got)
	}
}
