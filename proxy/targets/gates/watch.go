package gates

import (
	"log/slog"
	"maps"
	"math"
	"strings"
	"time"

	"weir/proxy/targets/gate"
	"weir/proxy/targets/roster"
)

const (
	// backAfter is how long no request may have waited for a target before the target is reported
	// to be back.
	backAfter = 5 * time.Second
	// gateLinesMax bounds the lines about gates per second, apart from one that counts the omitted
	// ones.
	gateLinesMax = 20
)

// A SlowdownLogger logs when targets become slow, when that gets much worse, and when they are back.
//
// Owned by one goroutine.
type SlowdownLogger struct {
	log     *slog.Logger
	shadow  bool
	targets map[*roster.Target]*watched
	lines   int // logged in this second
	dropped int
}

// A watched is the state of a target a second ago.
type watched struct {
	state
	since     time.Time // beginning of the reported bad time; zero: none
	lastLimit int       // limit in the last line
	calm      time.Time // since when no request has waited
	shed      uint64    // requests shed before the bad time
}

// Poll looks at all gates. It is called once a second.
func (w *SlowdownLogger) Poll(now time.Time, g *Gates) {
	if g.cfg.Mode == gate.Off {
		return
	}
	w.log, w.shadow = g.cfg.Log, g.cfg.Mode == gate.Shadow
	list := g.cfg.Targets.All()
	for _, spec := range list {
		w.note(now, spec, g.state(spec))
	}
	w.flush()
	if len(w.targets) > len(list) {
		there := make(map[*roster.Target]bool, len(list))
		for _, spec := range list {
			there[spec] = true
		}
		maps.DeleteFunc(w.targets, func(spec *roster.Target, _ *watched) bool { return !there[spec] })
	}
}

// note logs changes of a target. Targets that have received no request are not kept.
func (w *SlowdownLogger) note(now time.Time, spec *roster.Target, g state) {
	t := w.targets[spec]
	if t == nil {
		if g.Limit == 0 {
			return
		}
		if w.targets == nil {
			w.targets = make(map[*roster.Target]*watched)
		}
		w.targets[spec] = &watched{state: g}
		return
	}
	before := t.state
	t.state = g
	fell := g.Cuts != before.Cuts
	if fell || g.shed > before.shed || g.waiting > 0 || g.inFlight > g.Limit || g.Down {
		t.calm = now
	}
	bad := !t.since.IsZero()
	switch {
	case !bad && (fell && g.Limit < before.Limit || g.shed > before.shed):
		t.since, t.shed = now, before.shed
		w.slower(t, spec, &before)
	case bad && fell && g.Limit <= t.lastLimit/2:
		w.slower(t, spec, &before)
	case bad && now.Sub(t.calm) >= backAfter:
		w.line(w.log.Info, "Target is back", spec, "limit", g.Limit, "p50", rounded(g.Median), "baseline",
			rounded(g.Baseline),
			"shed", g.shed-t.shed, "after", now.Sub(t.since).Round(time.Second))
		t.since = time.Time{}
	}
}

// slower logs that a target cannot serve the offered load, and why.
func (w *SlowdownLogger) slower(t *watched, spec *roster.Target, before *state) {
	message := "Target cannot take all requests, the rest is shed"
	switch {
	case t.Cuts[gate.Latency] > before.Cuts[gate.Latency]:
		message = "Target is slower than usual, fewer requests at a time"
	case t.Cuts[gate.Errors] > before.Cuts[gate.Errors]:
		message = "Target refuses requests, fewer requests at a time"
	}
	t.lastLimit = t.Limit
	w.line(w.log.Warn, message, spec, "limit", t.Limit, "was", before.Limit, "p50", rounded(t.Median), "baseline",
		rounded(t.Baseline))
}

// line logs about a target, unless the bound for this second is reached.
func (w *SlowdownLogger) line(log func(string, ...any), message string, spec *roster.Target, values ...any) {
	if w.lines++; w.lines > gateLinesMax {
		w.dropped++
		return
	}
	about := []any{"target", spec.URL}
	if !strings.HasSuffix(spec.URL, "://"+spec.Addr) {
		about = append(about, "address", spec.Addr)
	}
	about = append(about, values...)
	if w.shadow {
		about = append(about, "mode", gate.Shadow.String())
	}
	log(message, about...)
}

// flush ends the second.
func (w *SlowdownLogger) flush() {
	if w.dropped > 0 {
		w.log.Warn("More targets are slower than usual, or back; GET /config/gate shows each", "count", w.dropped)
	}
	w.lines, w.dropped = 0, 0
}

// rounded returns d rounded to two digits.
func rounded(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d.Round(time.Duration(math.Pow10(max(0, int(math.Log10(float64(d)))-1))))
}
