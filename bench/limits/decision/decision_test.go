package decision

import (
	"fmt"
	"strings"
	"testing"

	"weir/bench/lab/result"
	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
)

// The goals are held against one key, and each is missed when it is.
func TestJudge(t *testing.T) {
	good := [][]rig.Measurement{{{CPU: 100, Redis: 10}}, {{CPU: 20, Redis: 3, Commands: .2}}, {{PerSecond: 80_000}}}
	all := []rig.ComparedProgram{{Redis: new(rig.Redis)}, {Own: "x", Redis: new(rig.Redis)}, {Own: "y"}}
	for _, c := range []struct {
		users int
		spoil func(runs [][]rig.Measurement)
		want  string
	}{
		{1, func([][]rig.Measurement) {}, ""},
		{1, func(runs [][]rig.Measurement) { runs[1][0].CPU = 20.4 }, "decisions per CPU time"},
		{1, func(runs [][]rig.Measurement) { runs[1][0].Commands = .21 }, "store commands"},
		{1, func(runs [][]rig.Measurement) { runs[1][0].Redis = 3.1 }, "CPU time of Redis"},
		{1, func(runs [][]rig.Measurement) { runs[2][0].PerSecond = 79_000 }, "simulated Redis"},
		{1000, func(runs [][]rig.Measurement) { runs[1][0].CPU = 1000 }, ""},
	} {
		var runs [][]rig.Measurement
		for _, one := range good {
			runs = append(runs, []rig.Measurement{one[0]})
		}
		c.spoil(runs)
		l := &lab{&rig.Lab{Report: new(result.Report)}}
		l.judge(all, runs, c.users)
		resulttest.RequireMissed(t, "the case of "+c.want, &l.Expectations, c.want)
	}
}

// wrk names the users in turn.
func TestScript(t *testing.T) {
	if text := fmt.Sprintf(script, "%s", 1000); !strings.Contains(text, `"value":"%s"`) ||
		!strings.Contains(text, `n % 1000)`) {
		t.Error(text)
	}
}
