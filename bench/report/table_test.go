package report

import (
	"reflect"
	"testing"
)

const printed = `seven pairs of runs
of three seconds

  1 of 7: progress that nobody keeps

### Forwarding

|  | peer /s | weir /s | ratio (min … max) | peer CPU µs | weir CPU µs | ratio (min … max) |
| --- | --- | --- | --- | --- | --- | --- |
| one loop | 100 | 110 | **1.10** (1.00 … 1.20) | 9.0 | 8.1 | **0.90** (0.80 … 1.00) |

More is better.

### Memory

| what | value |
|---|---|
| idle | 2.1 KB |
`

func TestParse(t *testing.T) {
	got := Parse(printed)
	if len(got) != 3 || got[0].Notes[0] != "seven pairs of runs\nof three seconds" || got[1].Heading != "Forwarding" {
		t.Fatalf("got %+v", got)
	}
	forwarding := got[1].Tables[0]
	if len(forwarding.Columns) != 7 || len(forwarding.Rows) != 1 || forwarding.Rows[0][3] != "**1.10** (1.00 … 1.20)" {
		t.Fatalf("table %+v", forwarding)
	}
	if n := got[1].Notes; len(n) != 1 || n[0] != "More is better." {
		t.Fatalf("notes %q", n)
	}
	if again := Parse(string(Markdown(got))); !reflect.DeepEqual(again, got) {
		t.Fatalf("written and read again: %+v", again)
	}
	if len(Parse("")) != 0 {
		t.Fatal("nothing printed has sections")
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
	if sections := Parse(table.String()); !reflect.DeepEqual(sections[0].Tables[0], *table) {
		t.Errorf("read again: %+v", sections)
	}
}
