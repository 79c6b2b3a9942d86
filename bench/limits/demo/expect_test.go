package demo

import (
	"fmt"
	"strings"
	"testing"

	"weir/bench/lab/result"
	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
	"weir/loadgen/record"
)

func TestAdmitted(t *testing.T) {
	for _, c := range []struct {
		p    phase
		want string
	}{
		{phase{algorithm: "fixed", rate: 500, seconds: 3}, "1500"},
		{phase{algorithm: "fixed", rate: 1000, seconds: 3}, "3000"},
		{phase{algorithm: "fixed", rate: 5000, seconds: 5}, "4950 … 6060"},
		{phase{algorithm: "sliding", rate: 5000, seconds: 5}, "4950 … 6060"},
		{phase{algorithm: "token", rate: 5000, seconds: 5}, "5940 … 6060"},
		{phase{algorithm: "token", rate: 1100, seconds: 5}, "5500"}, // everything: less than is stored and flows in
	} {
		got := c.p.admitted(limit)
		if c.p.rate == 1100 {
			got.least = min(got.least, got.most)
			if got.most != 5500 {
				t.Errorf("%+v: got %v, want at most what was sent", c.p, got)
			}
			continue
		}
		if got.String() != c.want {
			t.Errorf("%+v: got %v, want %s", c.p, got, c.want)
		}
	}
}

// TestFixedSpanByCount counts windows for every offset of the phase against
// the clock: the span must hold all of them.
func TestFixedSpanByCount(t *testing.T) {
	p := phase{algorithm: "fixed", rate: 5000, seconds: 5}
	span := p.admitted(limit)
	for offset := range 1000 {
		var windows [8]int
		for i := range p.rate * p.seconds {
			at := offset*p.rate/1000 + i
			windows[at/p.rate]++
		}
		admitted := 0
		for _, n := range windows {
			admitted += min(n, limit)
		}
		if !span.holds(uint64(admitted)) {
			t.Fatalf("a phase that begins %d ms into a window admits %d, outside %v", offset, admitted, span)
		}
	}
}

func TestProblems(t *testing.T) {
	good := func() phase {
		return phase{algorithm: "fixed", rate: 5000, seconds: 1, served: 1500,
			load: &rig.LoadResult{Result: record.Result{Sent: 5000, Success: 1500, RateLimited: 3500, Verdict: "VALID"}}}
	}
	judged := func(all ...phase) (string, error) { return rigtest.Run(t, func(l *rig.Lab) { show(l, all) }) }
	if out, err := judged(good()); err != nil || !strings.Contains(out, "make demo-gate") {
		t.Errorf("a good report ends with %v:\n%s", err, out)
	}
	for problem, spoil := range map[string]func(p *phase){
		"failed":         func(p *phase) { p.load.Errors = 1 },
		"answered":       func(p *phase) { p.load.Sent++ },
		"the target":     func(p *phase) { p.served-- },
		"expected 990 …": func(p *phase) { p.load.Success, p.served, p.load.RateLimited = 989, 989, 4011 },
		"2021 admitted":  func(p *phase) { p.load.Success, p.served, p.load.RateLimited = 2021, 2021, 2979 },
	} {
		wrong, doubtful := good(), good()
		spoil(&wrong)
		spoil(&doubtful)
		doubtful.load.Verdict = "INVALID"
		if got := wrong.problem(); !strings.Contains(got, problem) {
			t.Errorf("want a problem with %q, got %q", problem, got)
		}
		missed := result.ErrMissed.Error()
		_, err := judged(wrong)
		resulttest.RequireError(t, problem, err, missed)
		_, err = judged(good(), doubtful)
		resulttest.RequireExit(t, problem+" with another load than planned", err, 3, "")
		_, err = judged(doubtful, wrong)
		resulttest.RequireError(t, problem+" with and without the planned load", err, missed)
	}
}

func Example_expected() {
	p := phase{algorithm: "token", rate: 5000, seconds: 5, load: &rig.LoadResult{Result: record.Result{Sent: 25000}}}
	fmt.Println(p.expectedShare())
	// Output: 75.8…76.2
}
