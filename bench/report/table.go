package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Section is a heading with what stands below it.
type Section struct {
	Heading string   `json:"heading,omitempty"`
	Notes   []string `json:"notes,omitempty"` // paragraphs
	Tables  []Table  `json:"tables,omitempty"`
}

// A Table has a name for each column, and rows of as many cells.
type Table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// NewTable is a table without rows. Columns are separated by |.
func NewTable(columns string) *Table { return &Table{Columns: split(columns)} }

// Add adds a row of formatted cells, which are separated by |.
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

// String is the table in Markdown.
func (t Table) String() string {
	var b strings.Builder
	Head(&b, t.Columns...)
	for _, r := range t.Rows {
		Row(&b, r...)
	}
	return b.String()
}

// Text is the table for a terminal: columns of even width, each aligned to the
// right.
func (t Table) Text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range append([][]string{t.Columns}, t.Rows...) {
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// Head writes the head of a table in Markdown whose rows follow as they are found.
func Head(out io.Writer, columns ...string) {
	Row(out, columns...)
	Row(out, slices.Repeat([]string{"---"}, len(columns))...)
}

// Row writes a row of a table in Markdown.
func Row(out io.Writer, cells ...string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }

// Markdown writes sections as Parse reads them.
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
