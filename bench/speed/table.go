package speed

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

func (l *lab) heading(text string) {
	l.headed = false
	fmt.Fprintf(l.out, "\n### %s\n\n", text)
}

func (l *lab) table(columns ...string) {
	l.row(columns...)
	l.row(slices.Repeat([]string{"---"}, len(columns))...)
}

func (l *lab) row(cells ...string) { fmt.Fprintf(l.out, "| %s |\n", strings.Join(cells, " | ")) }

// describe says where and with what the figures were made.
func (l *lab) describe() {
	commit := "unknown"
	if out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output(); err == nil {
		commit = string(bytes.TrimSpace(out))
	}
	fmt.Fprintf(l.out, "%s, %d cores, %s, commit %s, %s; %d pairs of runs of %v, median and spread of the pairs' ratios, one loop against one worker unless said\n",
		processor(), runtime.NumCPU(), runtime.Version(), commit, time.Now().UTC().Format("2006-01-02"), rounds, span)
}

func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

// median is the middle of a figure over samples.
func median(samples []sample, of func(sample) float64) float64 {
	var vs []float64
	for _, s := range samples {
		vs = append(vs, of(s))
	}
	slices.Sort(vs)
	return vs[len(vs)/2]
}

// ratios is the median of the pairs' ratios, ours to the peer's, with its ends.
func ratios(ours, peers []sample, of func(sample) float64) string {
	var vs []float64
	for i := range ours {
		vs = append(vs, of(ours[i])/of(peers[i]))
	}
	slices.Sort(vs)
	return fmt.Sprintf("**%.2f** (%.2f … %.2f)", vs[len(vs)/2], vs[0], vs[len(vs)-1])
}
