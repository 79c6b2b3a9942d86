package gates

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/roster"
)

// played plays seconds of targets and returns what is logged, without what all lines
// have in common.
func played(shadow bool, seconds func(second int, note func(spec *roster.Target, g state)) bool) []string {
	text := new(testkit.Log)
	plain := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	w := SlowdownLogger{log: slog.New(slog.NewTextHandler(text, plain)), shadow: shadow}
	for second, more := 0, true; more; second++ {
		now := time.Unix(int64(1000+second), 0)
		more = seconds(second, func(spec *roster.Target, g state) { w.note(now, spec, g) })
		w.flush()
	}
	return strings.Split(strings.TrimSpace(text.String()), "\n")
}

// There is a line when a bad time begins, when it gets much worse, and when it is over,
// however many cuts there are.
func TestWatch(t *testing.T) {
	const ms = time.Millisecond
	spec := &roster.Target{URL: "h2c://a:80", Addr: "a:80"}
	other := &roster.Target{URL: "http://b:80", Addr: "10.0.0.2:80"}
	usual := state{State: gate.State{Limit: 31, Baseline: 9 * ms, Median: 9*ms + 123456}, least: 4, inFlight: 8}
	cut := func(g state, limit int, latency, errors, shed uint64) state {
		g.Limit, g.Median, g.Cuts, g.shed = limit, 48*ms+321000, [gate.Reasons]uint64{latency, errors}, shed
		return g
	}
	back := func(g state) state {
		g.Limit, g.Median = 30, 9*ms
		return g
	}
	for _, test := range []struct {
		name   string
		shadow bool
		spec   *roster.Target
		play   []state // the last for ten seconds
		want   []string
	}{
		{name: "calm", play: []state{usual}},
		{name: "never asked", play: []state{{}, {}, {}}},
		{name: "the limit follows the load", play: []state{usual, {State: gate.State{Limit: 20}, least: 4},
			{State: gate.State{Limit: 7}, least: 4}}},
		{name: "slow, much slower, back", play: []state{usual, cut(usual, 12, 3, 0, 0), cut(usual, 11, 5, 0, 40),
			cut(usual, 6, 7, 0, 90), back(cut(usual, 0, 7, 0, 90))},
			want: []string{
				`WARN Target is slower than usual, fewer requests at a time target=h2c://a:80 limit=12 was=31 p50=48ms baseline=9ms`,
				`WARN Target is slower than usual, fewer requests at a time target=h2c://a:80 limit=6 was=11 p50=48ms baseline=9ms`,
				`INFO Target is back target=h2c://a:80 limit=30 p50=9ms baseline=9ms shed=90 after=7s`,
			}},
		{name: "one address of a name, in shadow", shadow: true, spec: other,
			play: []state{usual, cut(usual, 12, 1, 0, 0), back(cut(usual, 0, 1, 0, 0))},
			want: []string{
				`WARN Target is slower than usual, fewer requests at a time target=http://b:80 address=10.0.0.2:80 limit=12 was=31 p50=48ms baseline=9ms mode=shadow`,
				`INFO Target is back target=http://b:80 address=10.0.0.2:80 limit=30 p50=9ms baseline=9ms shed=0 after=5s mode=shadow`,
			}},
		{name: "still more in flight than in shadow would be", shadow: true, play: []state{usual, cut(usual, 4, 1, 0, 0)},
			want: []string{`WARN Target is slower than usual, fewer requests at a time target=h2c://a:80 limit=4 was=31 p50=48ms baseline=9ms mode=shadow`}},
		{name: "refuses everything",
			play: []state{usual, {State: gate.State{Limit: 19, Median: 9 * ms, Baseline: 9 * ms,
				Cuts: [gate.Reasons]uint64{0, 1}, Down: true}, least: 4}},
			want: []string{
				`WARN Target refuses requests, fewer requests at a time target=h2c://a:80 limit=19 was=31 p50=9ms baseline=9ms`}},
		{name: "refuses", play: []state{usual, cut(usual, 20, 0, 1, 2), cut(usual, 20, 0, 1, 4), cut(usual, 20, 0, 1, 6)},
			want: []string{
				`WARN Target refuses requests, fewer requests at a time target=h2c://a:80 limit=20 was=31 p50=48ms baseline=9ms`,
				`INFO Target is back target=h2c://a:80 limit=20 p50=48ms baseline=9ms shed=6 after=7s`,
			}},
		{name: "sheds without a cut", play: []state{usual, cut(usual, 31, 0, 0, 2)},
			want: []string{
				`WARN Target cannot take all requests, the rest is shed target=h2c://a:80 limit=31 was=31 p50=48ms baseline=9ms`,
				`INFO Target is back target=h2c://a:80 limit=31 p50=48ms baseline=9ms shed=2 after=5s`,
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			about := spec
			if test.spec != nil {
				about = test.spec
			}
			got := played(test.shadow, func(second int, note func(*roster.Target, state)) bool {
				note(about, test.play[min(second, len(test.play)-1)])
				return second < len(test.play)+8
			})
			for i, line := range got {
				line = strings.Replace(strings.Replace(line, "level=", "", 1), "msg=", "", 1)
				got[i] = strings.ReplaceAll(line, `"`, "")
			}
			if have, want := strings.Join(got, "\n"), strings.Join(test.want, "\n"); have != want {
				t.Errorf("logged\n%s\nwant\n%s", have, want)
			}
		})
	}
}

// However many targets become slow at once, there are few lines a second.
func TestWatchIsBounded(t *testing.T) {
	var specs []*roster.Target
	for i := range 10_000 {
		specs = append(specs, &roster.Target{URL: fmt.Sprintf("http://t%d:80", i), Addr: fmt.Sprintf("t%d:80", i)})
	}
	got := played(false, func(second int, note func(*roster.Target, state)) bool {
		for _, spec := range specs {
			note(spec, state{State: gate.State{Limit: 10 - second, Cuts: [gate.Reasons]uint64{uint64(second)}}})
		}
		return second == 0
	})
	if len(got) != gateLinesMax+1 ||
		!strings.Contains(got[gateLinesMax], fmt.Sprintf("count=%d", len(specs)-gateLinesMax)) {
		t.Errorf("%d lines, the last %s", len(got), got[len(got)-1])
	}
}
