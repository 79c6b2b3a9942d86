package drive

import (
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/loadgen/record"
)

func TestStop(t *testing.T) {
	b, s := against(t, answerAll(ok))
	run := b.start(load(s.addr, 200, 60))
	testkit.Eventually(t, "requests", func() bool { return s.requests.Load() > 20 })
	run.Stop()
	r := b.finish(run)
	if r.End != record.EndStopped || r.Elapsed >= 60 || r.Success != r.Sent {
		t.Errorf("ended as %s after %v s, %d of %d succeeded", r.End, r.Elapsed, r.Success, r.Sent)
	}
	if !strings.Contains(b.log.String(), "Load test stopped by user after ") {
		t.Errorf("the log has no word of it:\n%s", b.log.String())
	}
	if st := run.Status(); st.Running || st.Sent != r.Sent || st.Phase != record.PhaseOver {
		t.Errorf("status after the end: %+v", st)
	}
}

// Answers that do not come are not awaited for long after a stop.
func TestStopAbandons(t *testing.T) {
	b, s := against(t, silence)
	config := load(s.addr, 100, 60)
	config.Options = map[string]any{"timeout": 60}
	run := b.start(config)
	testkit.Eventually(t, "requests", func() bool { return s.requests.Load() > 5 })
	run.Stop()
	r := b.finish(run)
	if r.Abandoned == 0 || r.Abandoned != r.Sent || r.Completed != 0 {
		t.Errorf("sent %d, abandoned %d, completed %d", r.Sent, r.Abandoned, r.Completed)
	}
}

func TestStopBeforeTheStart(t *testing.T) {
	b, s := against(t, answerAll(ok))
	config := load(s.addr, 100, 60)
	config.StartAt = time.Now().Add(time.Hour).Format(time.RFC3339)
	run := b.start(config)
	if st := run.Status(); !st.Running || st.Phase != record.PhaseWaiting {
		t.Errorf("status before the start: %+v", st)
	}
	run.Stop()
	if r := b.finish(run); r.Due != 0 || r.Elapsed != 0 {
		t.Errorf("%d due in %v s", r.Due, r.Elapsed)
	}
}

func TestStartAt(t *testing.T) {
	b, s := against(t, answerAll(ok))
	config := load(s.addr, 100, 0.1)
	at := time.Now().Add(2 * time.Second)
	config.StartAt = at.Format(time.RFC3339Nano)
	r := b.run(config)
	if r.StartedAt.Before(at.Add(-time.Millisecond)) || r.Success != 10 {
		t.Errorf("started at %v, asked for %v; %d succeeded", r.StartedAt, at, r.Success)
	}
}
