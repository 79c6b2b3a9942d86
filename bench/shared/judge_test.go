package shared

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"weir/bench/result"
	"weir/bench/rig"
	"weir/internal/service"
)

func good() ([]second, []*rig.Loaded) {
	seconds := []second{{admitted: 1400, state: starting}, {admitted: 1000, refused: 2000, state: up}, {admitted: 1000, refused: 2000, state: up},
		{admitted: 2500, refused: 400, state: changing}, {admitted: 3000, state: down}, {admitted: 1000, refused: 2000, state: up}}
	return seconds, []*rig.Loaded{{Sent: 10}, {Sent: 10}}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(s []second, l []*rig.Loaded)
	}{
		{"as promised", "", func([]second, []*rig.Loaded) {}},
		{"too many", "1006.7 admitted", func(s []second, _ []*rig.Loaded) { s[1].admitted = 1020 }},
		{"too few", "993.3 admitted", func(s []second, _ []*rig.Loaded) { s[5].admitted = 980 }},
		{"refused while away", "second 5: 1 refused", func(s []second, _ []*rig.Loaded) { s[4].refused = 1 }},
		{"failed", "3 requests failed", func(_ []second, l []*rig.Loaded) { l[1].Errors = 3 }},
		{"late", "after 900 ms", func(_ []second, l []*rig.Loaded) { l[0].LatencyLimited.Max = 0.9 }},
	} {
		seconds, loads := good()
		c.spoil(seconds, loads)
		err := judge(io.Discard, seconds, loads)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// What is off under a load that was not as planned proves nothing: status 3, no record.
func TestInconclusive(t *testing.T) {
	seconds, loads := good()
	loads[1].Verdict, loads[1].Reasons = "INVALID", []string{"pacer lag p99 20 ms"}
	var out strings.Builder
	if err := judge(&out, seconds, loads); err != nil {
		t.Errorf("as promised, though the load was not as planned: %v", err)
	}
	seconds[1].admitted, loads[0].Errors = 900, 3
	err := judge(&out, seconds, loads)
	exit, ok := errors.AsType[*service.ExitError](err)
	if !ok || exit.Status != 3 || !errors.Is(err, result.ErrNotKept) || !strings.Contains(err.Error(), "pacer lag p99 20 ms") {
		t.Errorf("ends with %v", err)
	}
	if !strings.Contains(out.String(), "Not as promised, which proves nothing") || !strings.Contains(out.String(), "3 requests failed") {
		t.Errorf("said %s", out.String())
	}
	loads[1].Verdict = "DEGRADED"
	if _, ok := errors.AsType[*service.ExitError](judge(&out, seconds, loads)); ok {
		t.Error("a load that can be judged is called inconclusive")
	}
}

func TestStates(t *testing.T) {
	var got []state
	for n := 1; n <= 9; n++ {
		got = append(got, stateAt(n, script{total: 10, kill: 3, restart: 6}))
	}
	want := []state{starting, starting, up, changing, down, down, changing, changing, up}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
