package roster

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/proxy/upstream"
)

// Each change of state is a line, and what fails within a second is counted in it.
func TestWatch(t *testing.T) {
	const (
		up   = upstream.Up
		out  = upstream.Ejected
		down = upstream.Down
	)
	var w Watch
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	var was loggedState
	now := time.Unix(0, 0)
	for i, step := range []struct {
		is   targetState
		want string
	}{
		{targetState{status: up}, ""},
		{targetState{upstream.Draining, "", 0, ""}, ""},
		{targetState{status: up}, ""},
		{targetState{down, "refused", 3, "refused"}, `level=WARN msg="Target is down" cause=refused failures=3`},
		{targetState{down, "refused", 9, "refused"}, ""},
		{targetState{down, "timeout", 10, "timeout"}, `level=WARN msg="Target is down" cause=timeout failures=7`},
		{targetState{up, "", 12, "timeout"}, `level=INFO msg="Target is up again" after=3s failures=2`},
		{targetState{up, "", 12, "timeout"}, ""},
		{targetState{up, "", 13, "refused"}, `level=WARN msg="Target failed and is up again" cause=refused failures=1`},
		{targetState{out, "answered 503", 14, "answered 503"}, `level=WARN msg="Target gets no requests for a while because it answers with errors" cause="answered 503" failures=1`},
		{targetState{upstream.Probing, "answered 503", 14, "answered 503"}, ""},
		{targetState{out, "answered 503", 15, "answered 503"}, ""},
		{targetState{up, "", 15, "answered 503"}, `level=INFO msg="Target is up again" after=3s failures=1`},
	} {
		now = now.Add(time.Second)
		was = w.note(now, logger, was, step.is)
		if have := strings.TrimSpace(log.String()); have != step.want {
			t.Errorf("step %s: logged %s\nwant %s", strconv.Itoa(i), have, step.want)
		}
		log.Reset()
	}
}
