package main

import "testing"

// Suites name experiments that there are.
func TestSuites(t *testing.T) {
	for _, p := range append(append(quick("x"), usual("x")...), all("x")...) { // parts panics when there is none
		if !kept(p.Name) || p.Run == nil {
			t.Errorf("%s is not kept", p.Name)
		}
	}
	for _, name := range []string{"", "demo", "demo-gate", "suite", "none", "attack-target"} {
		if kept(name) {
			t.Errorf("%q is kept", name)
		}
	}
}

// A trial into another folder leaves the documents alone.
func TestPage(t *testing.T) {
	for dir, want := range map[string]string{"bench/results": "BENCHMARKS.md", "./bench/results/": "BENCHMARKS.md",
		"/tmp/trial": "", "bench/results/quick": ""} {
		if got := page(dir); got != want {
			t.Errorf("records in %s are shown by %q, want %q", dir, got, want)
		}
	}
}
