package serve

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/target/model"
)

// drain begins to drain and returns a channel that is closed at the end.
func (r *rig) drain() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Drain()
	}()
	r.until("draining", r.draining.Load)
	return done
}

func (r *rig) ended(done <-chan struct{}) {
	r.t.Helper()
	select {
	case <-done:
	case <-time.After(testkit.Patience):
		r.t.Fatal("the drain does not end")
	}
}

// startDrainable is start without the cleanup: the test ends the target.
func startDrainable(t *testing.T, cfg Config) *rig {
	t.Helper()
	cfg.Loops, cfg.Seed = 2, 1
	r := &rig{t: t, log: new(testkit.Log)}
	r.env = newEnv(r.log)
	var err error
	if r.Server, err = Start(r.env, cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDrainAnswersWhatIsUnderWay(t *testing.T) {
	r := startDrainable(t, Config{
		Model:        model.Config{Delay: forever, Workers: 1, Queue: 9, QueueTimeout: forever},
		DrainTimeout: forever,
	})
	idle, running, begun := r.dial(), r.dial(), r.dial()
	idle.Send("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
	idle.Status(404)
	begun.Send("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\nPOST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab")
	begun.Status(404)
	running.Send(get)
	r.inside(1, 0)
	var queued []*testkit.Conn
	for i := range 4 {
		w := r.dial()
		w.Send(get)
		queued = append(queued, w)
		r.inside(1, i+1)
	}

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
	if _, _, err := r.station.change(time.Now(), edit); err != nil {
		t.Fatal(err)
	}
	r.rooms[0].loop.Post(r.rooms[0].ring)
}

func TestDrainCutsWhatTakesTooLong(t *testing.T) {
	r := startDrainable(t, Config{
		Model:        model.Config{Delay: forever, Workers: 1, Queue: 9, QueueTimeout: forever},
		DrainTimeout: 10 * time.Millisecond,
	})
	w := r.dial()
	w.Send(get)
	r.inside(1, 0)
	r.ended(r.drain())
	w.Closed()
	if log := r.log.String(); !strings.Contains(log, `level=WARN msg="Requests cut: not answered in time"`) || !strings.Contains(log, "count=1") {
		t.Errorf("the cut is logged as %q", log)
	}
}

func TestDrainOfAnIdleTarget(t *testing.T) {
	r := startDrainable(t, Config{Model: model.Default(), DrainTimeout: forever})
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
	env := newEnv(new(testkit.Log))
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, env, Default()) }()
	(&rig{t: t}).until("ready", env.Health.Ready)
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run ended with %v", err)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("Run does not end")
	}
}

func TestPortIsTaken(t *testing.T) {
	r := start(t, model.Default())
	env := newEnv(new(testkit.Log))
	env.Addr = r.Addr().String()
	err := Run(context.Background(), env, Default())
	var op *net.OpError
	if !errors.As(err, &op) || env.Health.Ready() {
		t.Errorf("Run on a taken port: %v, ready %v", err, env.Health.Ready())
	}
}
