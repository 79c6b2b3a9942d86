package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/test/testkit"
)

// printing is an experiment that reports a ratio.
func printing(ratio string, err error) func(*rig.Lab, []string) {
	return func(l *rig.Lab, _ []string) {
		l.Heading("Speed")
		l.Head("", "weir /s", "ratio")
		l.Row("it", "5", ratio)
		rig.Check(err)
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "PAGE.md")
	const empty = "words\n<!-- bench one -->\n<!-- /bench one -->\n<!-- bench two -->\n<!-- /bench two -->\n"
	testkit.WriteFile(t, page, empty)
	plan := Plan{Dir: dir, Before: dir, Page: page, Parts: []Part{
		{"one", []string{"3"}, printing("**1.00** (0.90 … 1.10)", nil)},
		{"two", nil, printing("**2.00** (2.00 … 2.00)", nil)}}}
	var out bytes.Buffer
	if err := Run(t.Context(), plan, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "`bin/bench one 3`") ||
		!strings.Contains(string(text), "**2.00** (2.00 … 2.00)") {
		t.Fatalf("the page: %v\n%s", err, text)
	}
	all, err := result.LoadAll(dir)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	testkit.WriteFile(t, page, empty)
	if err := plan.Show(); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(page); err != nil || !bytes.Equal(again, text) {
		t.Fatalf("shown from the records the page differs: %v\n%s", err, again)
	}

	// Once more: the second is worse, the first fails but does not stop it.
	plan.Parts[0].Run, plan.Parts[1].Run = printing("**1.00** (0.90 … 1.10)", errors.New("lost a request")),
		printing("**1.50** (1.00 … 2.00)", nil)
	out.Reset()
	if err := Run(t.Context(), plan, &out); !errors.Is(err, ErrFailed) {
		t.Fatalf("ended with %v", err)
	}
	testkit.Contains(t, out.String(), "failed: lost a request", "worse than before",
		"worse: Speed: it, weir /s: 1.50, was 2.00")
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	plan := Plan{Dir: dir, Before: dir, Parts: []Part{{"one", nil, printing("", nil)},
		{"two", nil, func(*rig.Lab, []string) { cancel() }}}}
	if err := Run(ctx, plan, io.Discard); !errors.Is(err, context.Canceled) {
		t.Fatalf("ended with %v", err)
	}
	if all, err := result.LoadAll(dir); err != nil || len(all) != 1 || all[0].Experiment != "one" {
		t.Fatalf("kept %v, %v", all, err)
	}
}

func TestNotKeptAndLenient(t *testing.T) {
	dir := t.TempDir()
	plan := Plan{Dir: dir, Before: dir, Lenient: true, Parts: []Part{
		{"one", nil, printing("**2.00** (2.00 … 2.00)", nil)},
		{"two", nil, printing("**1.00** (1.00 … 1.00)", fmt.Errorf("nginx is not installed: %w", result.ErrNotRecorded))}}}
	var out bytes.Buffer
	if err := Run(t.Context(), plan, &out); err != nil ||
		!strings.Contains(out.String(), "left out: nginx is not installed") {
		t.Fatalf("ended with %v:\n%s", err, out.String())
	}
	if all, err := result.LoadAll(dir); err != nil || len(all) != 1 || all[0].Experiment != "one" {
		t.Fatalf("kept %v, %v", all, err)
	}
	plan.Parts[0].Run = printing("**1.00** (1.00 … 1.00)", nil)
	out.Reset()
	if err := Run(t.Context(), plan, &out); err != nil || !strings.Contains(out.String(), "worse: Speed") {
		t.Fatalf("a lenient plan ended with %v:\n%s", err, out.String())
	}
}

func TestPageWithoutPlace(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "PAGE.md")
	testkit.WriteFile(t, page, "words\n")
	plan := Plan{Dir: dir, Before: dir, Page: page, Parts: []Part{{"one", nil, printing("", nil)}}}
	if err := Run(t.Context(), plan, io.Discard); err == nil || !strings.Contains(err.Error(), "<!-- bench one -->") {
		t.Fatalf("ended with %v", err)
	}
	plan.Page = filepath.Join(dir, "none.md")
	if err := Run(t.Context(), plan, io.Discard); err != nil {
		t.Fatalf("without a page: %v", err)
	}
}
