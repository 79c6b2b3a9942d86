package protect

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/bench/lab/result"
	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

// The demo fails if the gate does not protect the target, unless the machine was too busy.
func TestDemoJudges(t *testing.T) {
	sit := testkit.Must((&Options{Only: plottedScenario + ",none,gate", Rounds: 1, Shorter: 1}).chosen())(t)[0]
	conclude := func(with, without int, validity record.Validity) error {
		run := func(side string, inTime int) Run {
			return Run{Scenario: sit.Name, Side: side, Round: 1, Shorter: 1, Verdict: validity, Reasons: []string{"stalled"},
				Score: Score{Requests: 1000, InTime: inTime, Ideal: 1000}}
		}
		l := &lab{Options: &Options{Shorter: 1}, out: new(result.Report),
			runs: []Run{run("none", without), run("gate", with)}}
		return l.contrast(&sit)
	}
	for _, c := range []struct{ with, without int }{{950, 300}, {1000, 999}} {
		for _, validity := range record.Verdicts() {
			if err := conclude(c.with, c.without, validity); err != nil {
				t.Errorf("%d with the gate, %d without, %s: %v", c.with, c.without, validity, err)
			}
		}
	}
	for _, c := range []struct{ with, without int }{{949, 300}, {960, 960}} {
		if err := conclude(c.with, c.without, record.Valid); !errors.Is(err, result.ErrMissed) {
			t.Errorf("%d with the gate, %d without: %v", c.with, c.without, err)
		}
		err := conclude(c.with, c.without, record.Degraded)
		resulttest.RequireExit(t, "the same on a busy machine", err, 3, "stalled")
	}
}

// A few seconds with the real programs, which may be too few for the gate: the demo prints lines
// while it runs, and names the picture that it has drawn.
func TestDemoPlays(t *testing.T) {
	rigtest.Build(t, "proxy", "target", "loadgen")
	t.Setenv("TMPDIR", t.TempDir())
	out, err := rigtest.Run(t, func(l *rig.Lab) { demo(l, 10) })
	exit, ok := errors.AsType[*service.ExitError](err)
	if inconclusive := ok && exit.Status == 3; err != nil && !inconclusive && !errors.Is(err, result.ErrMissed) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(out)
	_, file, _ := strings.Cut(strings.TrimSpace(out), "The picture of this run: ")
	svg := string(testkit.Must(os.ReadFile(file))(t))
	testkit.Contains(t, svg, "<svg", "without the gate", "with the gate, not configured", "at half its speed")
	testkit.Contains(t, out, "without the gate, 2 s", "with the gate, not configured, 2 s", "shed/s")
	if left := testkit.Must(filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "weir-demo-gate-*", "*")))(t); len(
		left) != 2 {
		t.Errorf("it leaves %q", left)
	}
}
