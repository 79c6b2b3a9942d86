package advisor

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-json"

	"weir/bench/closedloop"
	"weir/bench/result"
)

//go:embed page.html
var pageText string

// A drawing is a run on the page.
type drawing struct {
	Label, Note string
	Plots       []template.HTML
}

// A book is what is left of a run of the experiment.
type book struct {
	*result.Record
	Size      string    `json:"size"`
	Seeds     int       `json:"seeds"`
	MadeUp    bool      `json:"tracesMadeUp"`
	Verdicts  []verdict `json:"verdicts"`
	Scenarios []entry   `json:"scenarios"`
	Runs      []drawing `json:"-"`
}

// An entry is a scenario in the record.
type entry struct {
	Name    string             `json:"name"`
	Seed    uint64             `json:"seed"`
	Goodput map[string]float64 `json:"goodput"` // good answers per second by who chose the limit
}

func entries(plays []*played) (list []entry) {
	for _, p := range plays {
		e := entry{p.Name, p.Seed, make(map[string]float64)}
		for name, r := range p.results {
			e.Goodput[name] = r.Goodput()
		}
		list = append(list, e)
	}
	return list
}

// draw plays the first scenario of each event once more with c, and writes what
// it looked like.
func draw(plays []*played, c closedloop.Contestant, dir string) (list []drawing, files []string, err error) {
	seen := make(map[string]bool)
	for _, p := range plays {
		if seen[p.Event] {
			continue
		}
		seen[p.Event] = true
		s := *p.Scenario
		s.Record = true
		r, err := closedloop.Run(&s, c.New(&s))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		d := drawing{Label: s.Name, Note: fmt.Sprintf("%.1f %% of what a perfect gate answers in time; overload %d s of %d", 100-loss(p, r), r.Overload, r.Seconds)}
		for i, plot := range plots(&s, r) {
			svg, err := plot.SVG()
			if err != nil {
				return nil, nil, fmt.Errorf("draw %s: %w", s.Name, err)
			}
			d.Plots = append(d.Plots, template.HTML(svg))
			name := fmt.Sprintf("%d-%s.svg", len(list)+1, [...]string{"limit", "forecast", "wait"}[i])
			files = append(files, name)
			if err := create(filepath.Join(dir, name), func(w io.Writer) error { _, err := w.Write(svg); return err }); err != nil {
				return nil, nil, err
			}
		}
		list = append(list, d)
	}
	return list, files, nil
}

// write puts the page and the record into dir.
func (b *book) write(dir string) error {
	plain := func(cell string) string { return strings.ReplaceAll(cell, "**", "") }
	t, err := template.New("page").Funcs(template.FuncMap{"plain": plain}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	if err := create(filepath.Join(dir, "index.html"), func(w io.Writer) error { return t.Execute(w, b) }); err != nil {
		return err
	}
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return create(filepath.Join(dir, "result.json"), func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err })
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
