package result

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pages of this repository, and where the records are that they show.
const (
	results    = "../results"
	benchmarks = "../../BENCHMARKS.md"
	readme     = "../../README.md"
)

// TestPageShowsTheRecords: every figure on the page is one of a record.
func TestPageShowsTheRecords(t *testing.T) {
	page, err := os.ReadFile(benchmarks)
	if err != nil {
		t.Fatal(err)
	}
	records, err := LoadAll(results)
	if err != nil || len(records) == 0 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	shown := make(map[string]bool)
	for _, r := range records {
		shown[r.Experiment] = true
		fresh, err := r.Refresh(page)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fresh, page) {
			t.Errorf("%s does not show what bench/results/%s.json holds; bin/bench suite refreshes it", benchmarks, r.Experiment)
		}
		for _, file := range r.Files {
			if _, err := os.Stat(filepath.Join(results, file)); err != nil {
				t.Errorf("%s: %v", r.Experiment, err)
			}
		}
	}
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "<!-- bench "); ok && !shown[strings.TrimSuffix(strings.TrimSpace(name), " -->")] {
			t.Errorf("%s has a place for %s, of which there is no record", benchmarks, strings.TrimSpace(name))
		}
	}
}

// TestReadmeShowsAScenario: the picture on the first screen belongs to a record.
func TestReadmeShowsAScenario(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Load(results, "scenario")
	if err != nil || r == nil {
		t.Fatalf("record %v, %v", r, err)
	}
	for _, file := range r.Files {
		if bytes.Contains(text, []byte("](bench/results/"+file+")")) {
			return
		}
	}
	t.Errorf("the README shows none of %v", r.Files)
}

// TestReadmeShowsTheDemo: what the README shows of the demo is what it printed.
func TestReadmeShowsTheDemo(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	printed, err := os.ReadFile(filepath.Join(results, "demo.txt"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "█") {
			continue
		}
		rows++
		if !bytes.Contains(printed, []byte(strings.TrimSpace(line))) {
			t.Errorf("the README shows a line that bench/results/demo.txt does not have:\n%s", line)
		}
	}
	if rows == 0 {
		t.Error("the README shows nothing of the demo")
	}
}
