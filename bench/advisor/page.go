package advisor

import (
	"fmt"
	"path/filepath"

	"github.com/goccy/go-json"

	"weir/bench/closedloop"
	"weir/bench/report"
	"weir/bench/result"
)

// about explains the figures on the page.
var about = []string{`Virtual time: recorded traffic scaled to a target with 8 or 64 workers (log-normal, 50 ms on average), clients that come again, snapshots every 30 or 60 seconds of which some are lost.
An answer is good within three times the 95th percentile without a queue. “Loss” is the share of them that is missing beside a perfect gate, which sees the target's queue and lets a request in when its turn comes within half of that time.`}

// A book is what is left of a run of the experiment.
type book struct {
	*result.Record
	Size      string          `json:"size"`
	Seeds     int             `json:"seeds"`
	MadeUp    bool            `json:"tracesMadeUp"`
	Verdicts  []verdict       `json:"verdicts"`
	Scenarios []entry         `json:"scenarios"`
	Runs      []report.Figure `json:"-"`
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
func draw(plays []*played, c closedloop.Contestant, dir string) (list []report.Figure, files []string, err error) {
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
		d := report.Figure{Label: s.Name, Note: fmt.Sprintf("%.1f %% of what a perfect gate answers in time; overload %d s of %d", 100-loss(p, r), r.Overload, r.Seconds)}
		for i, plot := range plots(&s, r) {
			name := fmt.Sprintf("%d-%s.svg", len(list)+1, [...]string{"limit", "forecast", "wait"}[i])
			files = append(files, name)
			if err := d.Draw(plot, filepath.Join(dir, name)); err != nil {
				return nil, nil, err
			}
		}
		list = append(list, d)
	}
	return list, files, nil
}

// write puts the page and the record into dir.
func (b *book) write(dir string) error {
	page := report.Page{Title: "Weir: what the advisor is worth", Lead: b.Lead(), About: about}
	for _, s := range b.Sections {
		page.Chapters = append(page.Chapters, report.Chapter{Name: s.Heading, Notes: s.Notes, Tables: s.Tables, Bold: advisorName})
	}
	if len(b.Runs) > 0 {
		page.Chapters = append(page.Chapters, report.Chapter{Name: "What the advisor did", Figures: b.Runs})
	}
	if err := page.Write(filepath.Join(dir, "index.html")); err != nil {
		return err
	}
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return report.Create(filepath.Join(dir, "result.json"), append(text, '\n'))
}
