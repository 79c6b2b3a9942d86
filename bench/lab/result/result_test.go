package result

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// sections returns what a comparison reports with two ratios.
func sections(rate, cpu string) []Section {
	var r Report
	r.Heading("Forwarding")
	r.Head("", "peer /s", "weir /s", "ratio (min … max)", "peer CPU µs", "weir CPU µs", "ratio (min … max)")
	r.Row("one loop", "100", "110", rate, "9.0", "8.1", cpu)
	return r.rec.Sections
}

// The ratios of the previous record, as experiments write them.
var rateBefore, cpuBefore = Spread{1.10, 1, 1.2}.Ratio(2), Spread{.9, .8, 1}.Ratio(2)

func TestRatios(t *testing.T) {
	r := Record{Sections: sections(rateBefore, cpuBefore)}
	want := []Ratio{
		{"Forwarding: one loop, weir /s", 1.10, 1, 1.2, false},
		{"Forwarding: one loop, weir CPU µs", 0.90, 0.8, 1, true},
	}
	if got := r.Ratios(); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v", got)
	}
}

func TestWorse(t *testing.T) {
	before := &Record{Commit: "abc", Sections: sections(rateBefore, cpuBefore)}
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
		got := Regressions(before, &Record{Sections: sections(c.rate, c.cpu)})
		if (c.worse == "") != (len(got) == 0) || c.worse != "" && !strings.Contains(got[0], c.worse) {
			t.Errorf("%s, %s: worse %q, want %q", c.rate, c.cpu, got, c.worse)
		}
	}
}

func TestRefresh(t *testing.T) {
	r := Record{Experiment: "speed", Command: "bin/bench speed", Commit: "abc", Sections: sections(rateBefore, cpuBefore),
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

func TestReportAndFiles(t *testing.T) {
	dir, began := filepath.Join(t.TempDir(), "results"), time.Unix(1000, 0)
	var out bytes.Buffer
	report := NewReport(began, &out, "demo", []string{"3"})
	report.Note("%d runs", 2)
	fmt.Fprintln(report, "  progress")
	report.Heading("%d loops", 1)
	table := NewTable("what | ms")
	table.Add("idle | %.1f", 2.04)
	report.Table(table)
	report.Head("who", "")
	report.Row("nginx", "1")
	report.Add("weir | %d", 2)
	report.Note("last")
	report.Attach("a.svg")
	if want := "\n2 runs\n  progress\n\n### 1 loops\n\n" + table.String() +
		"\n| who |  |\n| --- | --- |\n| nginx | 1 |\n| weir | 2 |\n\nlast\n"; out.String() != want {
		t.Errorf("printed %q", out.String())
	}
	want := []Section{{Notes: []string{"2 runs"}}, {Heading: "1 loops", Notes: []string{"last"},
		Tables: []Table{*table, {[]string{"who", ""}, [][]string{{"nginx", "1"}, {"weir", "2"}}}}}}
	r := report.Record(began.Add(90*time.Second), errors.New("broken"))
	if r.Took != 90 || r.Command != "bin/bench demo 3" || r.Fault != "broken" || !reflect.DeepEqual(r.Sections, want) ||
		r.Machine.Cores < 1 || r.Files[0] != "a.svg" {
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
