package decision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"weir/bench/rig"
	"weir/internal/service"
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
		l := &lab{out: io.Discard}
		l.judge(all, runs, c.users)
		if missed := strings.Join(l.e.Missed(), "; "); (missed == "") != (c.want == "") || !strings.Contains(missed, c.want) {
			t.Errorf("missed %q, want %q", missed, c.want)
		}
	}
}

func TestWaits(t *testing.T) {
	l := new(rig.Loaded)
	for i := range 100 {
		l.Outcomes = append(l.Outcomes, rig.Outcome{Due: time.Second, Done: time.Second + time.Duration(100-i)*time.Millisecond, Status: 200})
	}
	l.Outcomes[7].Status, l.Outcomes[8].Status = 0, 429
	if w := waitsOf(l); w.bad != 2 || w.at(.5) != 51*time.Millisecond || w.at(1) != 100*time.Millisecond || w.at(0) != time.Millisecond {
		t.Errorf("%d bad, p50 %v, longest %v", w.bad, w.at(.5), w.at(1))
	}
}

// wrk names the users in turn.
func TestScript(t *testing.T) {
	if text := fmt.Sprintf(script, "%s", 1000); !strings.Contains(text, `"value":"%s"`) || !strings.Contains(text, `n % 1000)`) {
		t.Error(text)
	}
}

func TestUsage(t *testing.T) {
	err := Run(context.Background(), []string{"sped"}, io.Discard)
	if exit, ok := errors.AsType[*service.ExitError](err); !ok || exit.Status != 2 {
		t.Error(err)
	}
}
