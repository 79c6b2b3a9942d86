package decision

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"weir/bench/rig"
)

// The goals are held against one key, and each is missed when it is.
func TestJudge(t *testing.T) {
	good := [][]sample{{{perCPU: 10, redis: 10}}, {{perCPU: 50, redis: 3, commands: .2}}, {{perSecond: 80_000}}}
	all := []contestant{{redis: new(rig.Redis)}, {own: "x", redis: new(rig.Redis)}, {own: "y"}}
	for _, c := range []struct {
		users int
		spoil func(runs [][]sample)
		want  string
	}{
		{1, func([][]sample) {}, ""},
		{1, func(runs [][]sample) { runs[1][0].perCPU = 49 }, "decisions per processor time"},
		{1, func(runs [][]sample) { runs[1][0].commands = .21 }, "store commands"},
		{1, func(runs [][]sample) { runs[1][0].redis = 3.1 }, "Redis' processor time"},
		{1, func(runs [][]sample) { runs[2][0].perSecond = 79_000 }, "simulated Redis"},
		{1000, func(runs [][]sample) { runs[1][0].perCPU = 1 }, ""},
	} {
		var runs [][]sample
		for _, one := range good {
			runs = append(runs, []sample{one[0]})
		}
		c.spoil(runs)
		l := &lab{rig.Lab{Out: io.Discard}}
		l.judge(all, runs, c.users)
		if missed := strings.Join(l.Missed(), "; "); (missed == "") != (c.want == "") || !strings.Contains(missed, c.want) {
			t.Errorf("missed %q, want %q", missed, c.want)
		}
	}
}

func TestUndecided(t *testing.T) {
	l := &rig.Loaded{Outcomes: []rig.Outcome{{Status: 200}, {Status: 0}, {Status: 429}}}
	if n := undecided(l); n != 2 {
		t.Errorf("%d of two", n)
	}
}

// wrk names the users in turn.
func TestScript(t *testing.T) {
	if text := fmt.Sprintf(script, "%s", 1000); !strings.Contains(text, `"value":"%s"`) || !strings.Contains(text, `n % 1000)`) {
		t.Error(text)
	}
}
