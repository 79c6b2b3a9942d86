package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/chart"
)

//go:embed page.html
var pageText string

// A Page is a report in one HTML file that takes nothing from the network.
type Page struct {
	Title    string
	Lead     string   // where the figures come from
	About    []string // paragraphs
	Chapters []Chapter
}

// A Chapter is a part of a page. When it has as many figures as a table has rows,
// each row leads to its figure.
type Chapter struct {
	Name, About string
	Notes       []string // paragraphs, in front of the tables
	Tables      []Table
	Bold        string   // the first cell of rows that stand out
	Findings    []string // behind the tables
	Figures     []Figure
}

// A Figure is some plots of one run. The first is as wide as the page.
type Figure struct {
	ID, Label, Note string
	Plots           []template.HTML
}

// Draw adds a plot, and writes it to file as well unless that is empty.
func (f *Figure) Draw(c chart.Chart, file string) error {
	svg, err := c.SVG()
	if err != nil {
		return fmt.Errorf("draw %s: %w", f.Label, err)
	}
	f.Plots = append(f.Plots, template.HTML(svg))
	if file == "" {
		return nil
	}
	return Create(file, svg)
}

// Write writes the page.
func (p *Page) Write(path string) error {
	plain := func(text string) string { return strings.ReplaceAll(text, "**", "") }
	t, err := template.New("page").Funcs(template.FuncMap{"plain": plain}).Parse(chart.Page(pageText))
	if err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	return create(path, func(w io.Writer) error { return t.Execute(w, p) })
}

// Create writes a file whole or not at all, with the folders that it lies in.
func Create(path string, text []byte) error {
	return create(path, func(w io.Writer) error { _, err := w.Write(text); return err })
}

func create(path string, write func(w io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	if err = write(f); err != nil {
		_ = f.Close()
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
