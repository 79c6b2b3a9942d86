package result

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/data/chart/charttest"
	"weir/internal/test/testkit"
)

// The pages of this repository, and where the records are that they show.
const (
	results    = "../../results"
	benchmarks = "../../../BENCHMARKS.md"
	readme     = "../../../README.md"
)

// TestPageShowsTheRecords: every figure on the page is one of a record.
func TestPageShowsTheRecords(t *testing.T) {
	page := testkit.Must(os.ReadFile(benchmarks))(t)
	records, err := LoadAll(results)
	if err != nil || len(records) == 0 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	shown := make(map[string]bool)
	for _, r := range records {
		shown[r.Experiment] = true
		fresh := testkit.Must(r.Refresh(page))(t)
		if !bytes.Equal(fresh, page) {
			t.Errorf("%s does not show what bench/results/%s.json holds; bin/bench suite refreshes it", benchmarks, r.Experiment)
		}
	}
	for line := range strings.Lines(string(page)) {
		text, ok := strings.CutPrefix(line, "<!-- bench ")
		name := strings.TrimSuffix(strings.TrimSpace(text), " -->")
		begin, end := markers(name)
		if ok && !shown[name] && !bytes.Contains(page, []byte(begin+end)) {
			t.Errorf("%s shows figures of %s, of which there is no record", benchmarks, name)
		}
	}
}

// TestReadmeShowsARecord: the picture on the first screen belongs to a record.
func TestReadmeShowsARecord(t *testing.T) {
	text := testkit.Must(os.ReadFile(readme))(t)
	_, rest, _ := strings.Cut(string(text), "](bench/results/")
	picture, _, _ := strings.Cut(rest, ")")
	records := testkit.Must(LoadAll(results))(t)
	for _, r := range records {
		if slices.Contains(r.Files, picture) {
			return
		}
	}
	t.Errorf("the README's first picture, %q, belongs to no record", picture)
}

// TestReadmeComparesLikeWithLike: the README's table of the overload has, in each row,
// what the record has of that run.
func TestReadmeComparesLikeWithLike(t *testing.T) {
	text := testkit.Must(os.ReadFile(readme))(t)
	record, err := Load(results, "scenario")
	if err != nil || record == nil {
		t.Fatalf("the record of the scenarios: %v, %v", record, err)
	}
	at := slices.IndexFunc(record.Sections, func(s Section) bool { return s.Heading == "Scenario overload" })
	if at < 0 || len(record.Sections[at].Tables) == 0 {
		t.Fatal("the record has no overload")
	}
	measured := record.Sections[at].Tables[0]
	column := func(name string) int { return slices.Index(measured.Columns, name) }
	var want []string
	for _, row := range measured.Rows {
		if row[column("store")] == "simulated" {
			want = append(want, "| "+strings.Join([]string{row[0], row[column("gate")], row[column("advisor")],
				row[column("answered 200 /s")], row[column("in time /s")], row[column("p99 ms")],
				row[column("generator")]}, " | ")+" |")
		}
	}
	const heads = "| limit | gate | advisor | answered /s | in time /s | p99 ms | generator |\n"
	_, rest, found := strings.Cut(string(text), heads)
	if !found {
		t.Fatal("the README has no table of the overload")
	}
	rows := 0
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		if rows++; !strings.HasPrefix(line, "| --- ") && !slices.Contains(want, strings.TrimSpace(line)) {
			t.Errorf("the README shows %q, the record has\n%s", strings.TrimSpace(line), strings.Join(want, "\n"))
		}
	}
	if rows < 4 {
		t.Errorf("the README's table has %d rows, must have those without a limit, with one and with the advisor", rows)
	}
}

// TestNoWrittenPages: of what experiments draw and write as a page the repository keeps
// only the pictures that its own pages show; and those it has.
func TestNoWrittenPages(t *testing.T) {
	list := testkit.Must(exec.Command("git", "ls-files", results).Output())(t)
	var pages []byte
	for _, name := range []string{readme, benchmarks} {
		text := testkit.Must(os.ReadFile(name))(t)
		pages = append(pages, text...)
	}
	shown := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\]\(bench/(results/[^)]+\.svg)\)`).FindAllSubmatch(pages, -1) {
		shown["../../"+string(m[1])] = true
	}
	for line := range strings.Lines(string(list)) {
		name := strings.TrimSpace(line)
		if ext := filepath.Ext(name); ext == ".html" || ext == ".svg" && !shown[name] {
			t.Errorf("%s is in the repository, and no page shows it", name)
		}
		delete(shown, name)
	}
	for name := range shown {
		t.Errorf("a page shows %s, which is not in the repository", name)
	}
}

// TestPicturesNeedNoFont: the pictures in the repository are readable with any font.
func TestPicturesNeedNoFont(t *testing.T) {
	svgs := make(map[string][]byte)
	for _, name := range testkit.Must(filepath.Glob(filepath.Join(results, "*.svg")))(t) {
		svgs[filepath.Base(name)] = testkit.Must(os.ReadFile(name))(t)
	}
	for _, fault := range charttest.Overlaps(t, `"DejaVu Sans Mono",monospace`, svgs) {
		t.Error(fault)
	}
}

// TestReadmeShowsTheDemo: what the README shows of the demo is what it printed.
func TestReadmeShowsTheDemo(t *testing.T) {
	text := testkit.Must(os.ReadFile(readme))(t)
	printed := testkit.Must(os.ReadFile(filepath.Join(results, "demo.txt")))(t)
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
