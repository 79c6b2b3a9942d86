package result

import (
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/data/chart"
)

//go:embed page.html
var pageText string

// A Page is a report in one self-contained HTML file.
type Page struct {
	Title    string
	Lead     string   // the origin of the figures
	About    []string // paragraphs
	Chapters []Chapter
}

// A Chapter is a part of a page. If a table has as many rows as the chapter has figures, each
// row links to its figure.
type Chapter struct {
	Name, About string
	Notes       []string // paragraphs before the tables
	Tables      []Table
	Bold        string   // the first cell of rows in bold type
	Findings    []string // shown after the tables
	Figures     []Figure
}

// A Figure is a group of plots of one run. The first is as wide as the page.
type Figure struct {
	ID, Label, Note string
	Plots           []template.HTML
}

// Draw adds a plot, and also writes it to file unless that is empty.
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
	text, err := chart.RenderPage(pageText, template.FuncMap{"plain": plain}, p)
	if err != nil {
		return err
	}
	return Create(path, text)
}

// Create writes a file atomically. It creates missing folders.
func Create(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
