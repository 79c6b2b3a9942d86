package advisor

import (
	"fmt"
	"path/filepath"

	"weir/bench/closedloop"
	"weir/bench/report"
	"weir/bench/result"
	"weir/bench/rig"
)

// about explains the figures on the page.
var about = []string{`Virtual time: recorded traffic scaled to a target with 8 or 64 workers (log-normal, 50 ms on average), clients that come again, snapshots every 30 or 60 seconds of which some are lost.
An answer is good within three times the 95th percentile without a queue. “Loss” is the share of them that is missing beside a perfect gate, which sees the target's queue and lets a request in when its turn comes within half of that time.`}

// draw plays the first scenario of each event once more with c, and writes plots of it.
func draw(plays []*played, c closedloop.Contestant, dir string) (list []report.Figure) {
	seen := make(map[string]bool)
	for _, p := range plays {
		if seen[p.Event] {
			continue
		}
		seen[p.Event] = true
		s := *p.Scenario
		s.Record = true
		rig.In(s.Name, func() {
			r := rig.Must(closedloop.Run(&s, c.New(&s)))
			d := report.Figure{Label: s.Name, Note: fmt.Sprintf("%.1f %% of what a perfect gate answers in time; overload %d s of %d", 100-loss(p, r), r.Overload, r.Seconds)}
			for i, plot := range plots(&s, r) {
				name := fmt.Sprintf("%d-%s.svg", len(list)+1, [...]string{"limit", "forecast", "wait"}[i])
				rig.Check(d.Draw(plot, filepath.Join(dir, name)))
			}
			list = append(list, d)
		})
	}
	return list
}

// write writes the page with a record and the plots.
func write(dir string, r *result.Record, runs []report.Figure) {
	page := report.Page{Title: "Weir: what the advisor is worth", Lead: r.Lead(), About: about}
	for _, s := range r.Sections {
		page.Chapters = append(page.Chapters, report.Chapter{Name: s.Heading, Notes: s.Notes, Tables: s.Tables, Bold: advisorName})
	}
	page.Chapters = append(page.Chapters, report.Chapter{Name: "What the advisor did", Figures: runs})
	rig.Check(page.Write(filepath.Join(dir, "index.html")))
}
