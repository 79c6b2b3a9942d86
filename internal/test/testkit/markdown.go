package testkit

import (
	"os"
	"strings"
	"testing"
)

// TableRows returns the cells of the rows of a table in a Markdown file, between the comments
// <!-- mark --> and <!-- /mark -->, without its header. The test fails if there are none.
func TableRows(t *testing.T, file, mark string) (rows [][]string) {
	t.Helper()
	_, rest, _ := strings.Cut(string(Must(os.ReadFile(file))(t)), "<!-- "+mark+" -->\n")
	table, _, ended := strings.Cut(rest, "<!-- /"+mark+" -->\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if !ended || len(rows) < 3 || !strings.HasPrefix(rows[1][0], "---") {
		t.Fatalf("%s has no table between the comments %s and /%s", file, mark, mark)
	}
	return rows[2:]
}

// BackquotedWords returns what is between backquotes in a cell of a table.
func BackquotedWords(cell string) (words []string) {
	for i, word := range strings.Split(cell, "`") {
		if i%2 == 1 {
			words = append(words, word)
		}
	}
	return words
}
