package result

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Section is a heading with the notes and tables below it.
type Section struct {
	Heading string   `json:"heading,omitempty"`
	Notes   []string `json:"notes,omitempty"` // paragraphs
	Tables  []Table  `json:"tables,omitempty"`
}

// A Table has named columns, and rows with as many cells.
type Table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// NewTable returns a table without rows. Columns are separated by |.
func NewTable(columns string) *Table { return &Table{Columns: split(columns)} }

// Add adds a row of formatted cells, separated by |.
func (t *Table) Add(format string, args ...any) {
	t.Rows = append(t.Rows, split(fmt.Sprintf(format, args...)))
}

func split(text string) []string {
	cells := strings.Split(text, "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// String returns the table in Markdown.
func (t Table) String() string {
	var b strings.Builder
	rule := slices.Repeat([]string{"---"}, len(t.Columns))
	for _, cells := range append([][]string{t.Columns, rule}, t.Rows...) {
		writeRow(&b, cells)
	}
	return b.String()
}

// Text returns the table for a terminal, with right-aligned columns.
func (t Table) Text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range append([][]string{t.Columns}, t.Rows...) {
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	_ = w.Flush() // a strings.Builder does not fail
	return b.String()
}

// writeRow writes a row of a table in Markdown.
func writeRow(out io.Writer, cells []string) {
	fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
}

// Markdown formats sections for a page.
func Markdown(sections []Section) []byte {
	var b bytes.Buffer
	for _, s := range sections {
		if s.Heading != "" {
			b.WriteString("### " + s.Heading + "\n\n")
		}
		for _, t := range s.Tables {
			b.WriteString(t.String() + "\n")
		}
		for _, n := range s.Notes {
			b.WriteString(n + "\n\n")
		}
	}
	return b.Bytes()
}
