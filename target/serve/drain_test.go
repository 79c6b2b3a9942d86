package serve

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/target/model"
)

// drain begins to drain and returns a channel that is closed at the end.
func (r *rig) drain() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Drain()
	}()
	r.until("draining", func() bool { return !r.env.Health.Ready() })
	return done
}

func (r *rig) ended(done <-chan struct{}) {
	r.t.Helper()
	testkit.Receive(r.t, done, "the end of the drain")
}

func TestDrainAnswersWhatIsUnderWay(t *testing.T) {
	r := startDrainable(t, Config{Loops: 2, Seed: 1,
		Model:        model.Config{Delay: forever, Workers: 1, Queue: 9, QueueTimeout: forever},
		DrainTimeout: forever,
	})
	idle, begun := r.dial(), r.dial()
	idle.Send("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
	idle.Status(404)
	begun.Send("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\nPOST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab")
	begun.Status(404)
	running, queued := r.occupy(4)

	done := r.drain()
	if r.env.Health.Ready() {
		t.Error("the target still wants traffic")
	}
	idle.Closed()
	if c, err := net.Dial("tcp", r.Addr().String()); err == nil {
		c.Close()
		t.Error("a new connection is accepted")
	}
	// The rest is let go by hand, as no test waits for the service time.
	r.change(t, func(c model.Config) model.Config { c.Workers, c.Delay = 0, 0; return c })
	for _, w := range queued {
		if res, _ := w.Status(200); !res.Close {
			t.Error("the last answer does not announce that the connection closes")
		}
		w.Closed()
	}
	begun.Send("c")
	begun.Status(404)
	begun.Closed()
	select {
	case <-done:
		t.Error("the drain ended before the last answer")
	default:
	}
	running.Close() // the only one left
	r.ended(done)
}

// change is POST /model when no connection can be made any more.
func (r *rig) change(t *testing.T, edit func(model.Config) model.Config) {
	t.Helper()
	if err := r.station.change(time.Now(), edit(r.station.config())); err != nil {
		t.Fatal(err)
	}
	r.shards[0].loop.Post(r.shards[0].handleAlarm)
}

func TestDrainCutsWhatTakesTooLong(t *testing.T) {
	r := startDrainable(t, Config{Loops: 2, Seed: 1,
		Model:        model.Config{Delay: forever, Workers: 1, Queue: 9, QueueTimeout: forever},
		DrainTimeout: 10 * time.Millisecond,
	})
	w, _ := r.occupy(0)
	r.ended(r.drain())
	w.Closed()
	if log := r.log.String(); !strings.Contains(log, `level=WARN msg="Requests cut: not answered in time"`) ||
		!strings.Contains(log, "count=1") {
		t.Errorf("the cut is logged as %q", log)
	}
}

func TestDrainOfAnIdleTarget(t *testing.T) {
	r := startDrainable(t, Config{Loops: 2, Seed: 1, Model: model.Default(), DrainTimeout: forever})
	w := r.dial()
	w.Send(get)
	w.Status(200)
	r.ended(r.drain())
	w.Closed()
	if log := r.log.String(); log != "" {
		t.Errorf("an orderly end is logged as %q", log)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	env := newEnv(t, new(testkit.Log))
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, env, Default()) }()
	(&rig{t: t}).until("ready", env.Health.Ready)
	cancel()
	if err := testkit.Receive(t, ended, "the end of Run"); err != nil {
		t.Errorf("Run ended with %v", err)
	}
}

func TestPortIsTaken(t *testing.T) {
	r := start(t, model.Default())
	env := newEnv(t, new(testkit.Log))
	env.Addr = r.Addr().String()
	err := Run(context.Background(), env, Default())
	var op *net.OpError
	if !errors.As(err, &op) || env.Health.Ready() {
		t.Errorf("Run on a taken port: %v, ready %v", err, env.Health.Ready())
	}
}
