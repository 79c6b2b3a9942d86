package result

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// printed is what an experiment prints; report.Parse has tests of its own.
const printed = `### Forwarding

|  | peer /s | weir /s | ratio (min … max) | peer CPU µs | weir CPU µs | ratio (min … max) |
| --- | --- | --- | --- | --- | --- | --- |
| one loop | 100 | 110 | **1.10** (1.00 … 1.20) | 9.0 | 8.1 | **0.90** (0.80 … 1.00) |
`

func TestRatios(t *testing.T) {
	r := Record{Sections: Parse(printed)}
	want := []Ratio{
		{"Forwarding: one loop, weir /s", 1.10, 1, 1.2, false},
		{"Forwarding: one loop, weir CPU µs", 0.90, 0.8, 1, true},
	}
	if got := r.Ratios(); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v", got)
	}
}

func TestWorse(t *testing.T) {
	before := &Record{Commit: "abc", Sections: Parse(printed)}
	for _, c := range []struct {
		rate, cpu string
		worse     string // of what; empty: of nothing
	}{
		{"**1.10** (1.00 … 1.20)", "**0.90** (0.80 … 1.00)", ""},
		{"**0.96** (0.90 … 1.00)", "**1.04** (0.80 … 1.20)", ""},
		{"**0.94** (0.90 … 1.00)", "**0.90** (0.80 … 1.00)", "weir /s: 0.94, was 1.10 (1.00 … 1.20) at commit abc"},
		{"**1.10** (1.00 … 1.20)", "**1.06** (0.90 … 1.20)", "weir CPU µs: 1.06"},
		{"**9.00** (9.00 … 9.00)", "**0.01** (0.01 … 0.01)", ""},
	} {
		text := strings.Replace(strings.Replace(printed, "**1.10** (1.00 … 1.20)", c.rate, 1), "**0.90** (0.80 … 1.00)",
			c.cpu, 1)
		got := Worse(before, &Record{Sections: Parse(text)})
		if (c.worse == "") != (len(got) == 0) || c.worse != "" && !strings.Contains(got[0], c.worse) {
			t.Errorf("%s, %s: worse %q, want %q", c.rate, c.cpu, got, c.worse)
		}
	}
}

func TestRefresh(t *testing.T) {
	r := Record{Experiment: "speed", Command: "bin/bench speed", Commit: "abc", Sections: Parse(printed),
		Fault: "one\ntwo"}
	page := "# Head\n\nwords\n\n<!-- bench speed -->\nold\n<!-- /bench speed -->\n\nmore words\n"
	got := testkit.Must(r.Refresh([]byte(page)))(t)
	text := string(got)
	testkit.Contains(t, text, "# Head\n\nwords\n", "\nmore words\n", "`bin/bench speed`: commit abc",
		"| one loop | 100 | 110 |", "**Failed**: one; two")
	if strings.Contains(text, "old") {
		t.Error("what was between the markers is still there")
	}
	again, err := r.Refresh(got)
	if err != nil || !bytes.Equal(again, got) {
		t.Errorf("refreshed twice it differs: %v", err)
	}
	r.Experiment = "other"
	if _, err := r.Refresh(got); err == nil || !strings.Contains(err.Error(), "<!-- bench other -->") {
		t.Errorf("a page without place: %v", err)
	}
}

func TestRecorderAndFiles(t *testing.T) {
	dir, began := filepath.Join(t.TempDir(), "results"), time.Unix(1000, 0)
	var out bytes.Buffer
	rec := NewRecorder(began, &out, "demo", []string{"3"})
	if _, err := rec.Write([]byte(printed)); err != nil || out.String() != printed {
		t.Fatalf("passed on %q, %v", out.String(), err)
	}
	r := rec.Record(began.Add(90*time.Second), errors.New("broken"))
	if r.Took != 90 || r.Command != "bin/bench demo 3" || r.Fault != "broken" || len(r.Sections) != 1 ||
		r.Machine.Cores < 1 {
		t.Fatalf("record %+v", r)
	}
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	all, err := LoadAll(dir)
	if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], r) {
		t.Fatalf("read again: %+v, %v", all, err)
	}
	if none, err := Load(dir, "other"); none != nil || err != nil {
		t.Fatalf("a record that is not there: %v, %v", none, err)
	}
	testkit.WriteFile(t, Path(dir, "torn"), "{")
	if _, err := LoadAll(dir); err == nil || !strings.Contains(err.Error(), "torn.json") {
		t.Fatalf("a torn record: %v", err)
	}
}

// Two runs are compared by the cells that experiments write with Spread.Ratio.
func TestRatiosReadsWhatReportWrites(t *testing.T) {
	cell := SpreadOf([]float64{4, 1, 2}, func(v float64) float64 { return v }).Ratio(2)
	table := NewTable("who | ratio")
	table.Add("nginx | %s", cell)
	r := Record{Sections: []Section{{Tables: []Table{*table}}}}
	if got := r.Ratios(); len(got) != 1 {
		t.Errorf("of %s the ratios are %+v", table, got)
	}
}
