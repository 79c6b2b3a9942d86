package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The dashboards in the repository are those that would be written now.
func TestFilesAreCurrent(t *testing.T) {
	for _, b := range boards() {
		want, err := b.render()
		if err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(filepath.Join("dashboards", b.file())); err != nil || string(have) != string(want) {
			t.Errorf("dashboards/%s is not current, run make dashboards: %v", b.file(), err)
		}
	}
	files, err := os.ReadDir("dashboards")
	if err != nil || len(files) != len(boards()) {
		t.Errorf("%d files for %d boards, %v", len(files), len(boards()), err)
	}
}

func TestExpand(t *testing.T) {
	f := func(have, want string) {
		t.Helper()
		if have != want {
			t.Errorf("have %s, want %s", have, want)
		}
	}
	const chosen = `job=~"$job", instance=~"$instance"`
	f(expand(`sum(x{@})`), `sum(x{`+chosen+`})`)
	f(expand(mean("x", `, a="b"`, "c")),
		`sum by (c) (rate(x_sum{`+chosen+`, a="b"}[$__rate_interval])) / sum by (c) (rate(x_count{`+chosen+`, a="b"}[$__rate_interval]))`)
	f(expand(quantile("0.5", "x", "", "")), `histogram_quantile(0.5, sum by (le) (rate(x_bucket{`+chosen+`}[$__rate_interval])))`)
	f(unchosen(`rate(x{@}[~]) / y{@, a="b"}`), `rate(x[~]) / y{a="b"}`)
}

// Panels go on in the next line when there is no room, and rows below all.
func TestLayout(t *testing.T) {
	b := board{rows: []row{
		{"a", []panel{{kind: lines, width: 12}, {kind: now}, {kind: lines, width: 12}}},
		{"b", []panel{{kind: now}}},
	}}
	want := []object{
		{"x": 0, "y": 0, "w": 24, "h": 1}, {"x": 0, "y": 1, "w": 12, "h": 8}, {"x": 12, "y": 1, "w": 4, "h": 4}, {"x": 0, "y": 9, "w": 12, "h": 8},
		{"x": 0, "y": 17, "w": 24, "h": 1}, {"x": 0, "y": 18, "w": 4, "h": 4},
	}
	for i, p := range b.panels() {
		have := p["gridPos"].(object)
		for k, v := range want[i] {
			if have[k] != v {
				t.Errorf("panel %d: have %v, want %v", i, have, want[i])
			}
		}
	}
}
