package scenario

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"

	"weir/bench/result"
)

//go:embed page.html
var pageText string

// A chapter is a scenario on the page.
type chapter struct {
	Name, About string
	Columns     []string
	Runs        []figures
	Findings    []string
}

// figures are a run on the page.
type figures struct {
	ID, Label string
	Cells     []string
	Plots     []template.HTML
}

// writePage writes the report that people show to others: one file without
// anything from the network.
func writePage(path string, chapters []chapter, r *result.Record) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	return create(path, func(w io.Writer) error {
		return t.Execute(w, struct {
			*result.Record
			Chapters []chapter
		}{r, chapters})
	})
}

// create writes a file whole or not at all.
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

// bold is Markdown's, which findings have, in HTML.
func bold(text string) string { return strings.ReplaceAll(text, "**", "") }

// newChapter draws the runs of a scenario. Each run's first plot is written to a
// file of its own as well.
func newChapter(s *Scenario, runs []*Run, dir string) (c chapter, files []string, err error) {
	c = chapter{Name: s.Name, About: s.About, Columns: columns[:]}
	for _, text := range findings(runs) {
		c.Findings = append(c.Findings, bold(text))
	}
	for _, r := range runs {
		f := figures{ID: r.String(), Label: r.label(), Cells: r.cells()}
		for i, plot := range r.plots(s) {
			svg, err := plot.SVG()
			if err != nil {
				return c, nil, fmt.Errorf("draw %s: %w", r, err)
			}
			f.Plots = append(f.Plots, template.HTML(svg))
			if i == 0 {
				name := "scenario-" + r.String() + ".svg"
				files = append(files, name)
				if err := create(filepath.Join(dir, name), func(w io.Writer) error { _, err := w.Write(svg); return err }); err != nil {
					return c, nil, err
				}
			}
		}
		c.Runs = append(c.Runs, f)
	}
	return c, files, nil
}
