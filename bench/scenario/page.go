package scenario

import (
	"path/filepath"

	"weir/bench/report"
	"weir/bench/rig"
)

// about explains the figures on the page.
var about = []string{`The limit is 1,000 requests per second, the target can do 1,500 (15 workers, 10 ms each, exponential), and its answers are good up to 50 ms at the 95th percentile.
“In time” is within 100 ms of when the request was due; “needlessly” is what was refused although the target had room; “overload” the share of the time in which the target was slower than that.
Each row is a single run.
With the advisor on, the limit moves: it knows the capacity, and has seen the scenario for a day.`}

// newChapter draws the runs of a scenario. Each run's first plot is written to a
// file of its own as well, whose name is returned.
func newChapter(s *Scenario, runs []*Run, dir string) (c report.Chapter, files []string) {
	c = report.Chapter{Name: s.Name, About: s.About, Tables: []report.Table{*table(runs)}, Findings: findings(runs)}
	for _, r := range runs {
		f := report.Figure{ID: r.String(), Label: r.label()}
		file := "scenario-" + r.String() + ".svg"
		files = append(files, file)
		for i, plot := range r.plots(s) {
			path := ""
			if i == 0 {
				path = filepath.Join(dir, file)
			}
			rig.Check(f.Draw(plot, path))
		}
		c.Figures = append(c.Figures, f)
	}
	return c, files
}
