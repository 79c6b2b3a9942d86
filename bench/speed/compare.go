package speed

import (
	"fmt"
)

// compare lets contestants take turns, ours last, and prints a table. Answers
// are to be refusals, or none may be one.
func (l *lab) compare(peers []contestant, ours contestant, connections int, refused bool) error {
	all := append(peers[:len(peers):len(peers)], ours)
	runs := make([][]sample, len(all))
	for range l.rounds {
		for i, c := range all {
			s, err := c.sample(l.ctx, connections, l.span)
			if err != nil {
				return err
			}
			if got := float64(s.failed) / s.requests; refused && got < 0.99 || !refused && got > 0 {
				return fmt.Errorf("%s: %.1f %% of its answers are not 2xx, which makes the comparison worthless", c.name, 100*got)
			}
			runs[i] = append(runs[i], s)
		}
	}
	l.table("", "requests/s", "CPU µs per request", "requests/s: "+ours.name+" ÷ it", "CPU: "+ours.name+" ÷ it")
	mine := runs[len(peers)]
	for i, c := range all {
		cells := []string{c.name, fmt.Sprintf("%.0f", median(runs[i], perSec)), fmt.Sprintf("%.1f", median(runs[i], cpuEach)), "", ""}
		if i < len(peers) {
			cells[3], cells[4] = ratios(mine, runs[i], perSec), ratios(mine, runs[i], cpuEach)
		}
		l.row(cells...)
	}
	return nil
}

// perSec and cpuEach are the figures that comparisons are about.
func perSec(s sample) float64  { return s.perSec }
func cpuEach(s sample) float64 { return float64(s.cpu.Nanoseconds()) / 1e3 }
