package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"weir/bench/report"
	"weir/bench/rig"
	"weir/internal/service"
	"weir/loadgen/record"
)

func TestAdmitted(t *testing.T) {
	for _, c := range []struct {
		p    phase
		want string
	}{
		{phase{"fixed", 500, 3}, "1500"},
		{phase{"fixed", 1000, 3}, "3000"},
		{phase{"fixed", 5000, 5}, "4950 … 6060"},
		{phase{"sliding", 5000, 5}, "4950 … 6060"},
		{phase{"token", 5000, 5}, "5940 … 6060"},
		{phase{"token", 1100, 5}, "5500"}, // everything: less than is stored and flows in
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
	p := phase{"fixed", 5000, 5}
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

func TestCheckFindsEachFault(t *testing.T) {
	good := func() *row {
		return &row{phase: phase{"fixed", 5000, 1}, expected: span{1000, 2000}, served: 1500,
			load: &rig.Loaded{Result: record.Result{Sent: 5000, Success: 1500, RateLimited: 3500, Verdict: "VALID"}}}
	}
	if p := good().check(); p != "" {
		t.Fatalf("a good phase: %s", p)
	}
	for name, spoil := range map[string]func(r *row){
		"failed":          func(r *row) { r.load.Errors = 1 },
		"answered":        func(r *row) { r.load.Sent++ },
		"the target":      func(r *row) { r.served-- },
		"expected 1000 …": func(r *row) { r.load.Success, r.served, r.load.RateLimited = 999, 999, 4001 },
		"2001 admitted":   func(r *row) { r.load.Success, r.served, r.load.RateLimited = 2001, 2001, 2999 },
	} {
		r := good()
		spoil(r)
		r.problem = r.check()
		if !strings.Contains(r.problem, name) {
			t.Errorf("want a problem with %q, got %q", name, r.problem)
		}
		if err := show(io.Discard, []row{*r}); !errors.Is(err, report.ErrMissed) {
			t.Errorf("%s: the report ends with %v", name, err)
		}
		doubtful := *r
		load := *r.load
		load.Verdict, doubtful.load = "INVALID", &load
		if exit, ok := errors.AsType[*service.ExitError](show(io.Discard, []row{*good(), doubtful})); !ok || exit.Status != 3 {
			t.Errorf("%s with another load than planned: it proves something", name)
		}
		if err := show(io.Discard, []row{doubtful, *r}); !errors.Is(err, report.ErrMissed) {
			t.Errorf("%s with and without the planned load: the report ends with %v", name, err)
		}
	}
	if err := show(io.Discard, []row{*good()}); err != nil {
		t.Errorf("a good report ends with %v", err)
	}
}

func Example_expected() {
	r := row{expected: phase{"token", 5000, 5}.admitted(limit), load: &rig.Loaded{Result: record.Result{Sent: 25000}}}
	fmt.Println(r.expectedShare())
	// Output: 75.8…76.2
}
