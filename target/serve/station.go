package serve

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/net/loop"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/target/model"
	"weir/target/session"
)

// A station is the simulated service, which all shards share.
//
// Any shard's alarm can be set for the next event of the model: the shard whose call makes the
// next event earlier sets its own, so that no loop has to wake another one. armed is the earliest
// time for which an alarm is set; it is never later than the next event. An alarm that was
// superseded by an earlier one fires without effect.
//
// Safe for concurrent use: a mutex guards the model and armed; plain is atomic.
type station struct {
	plain atomic.Bool // every request is served at once, without the model

	mu    sync.Mutex
	model *model.Model[requester]
	armed time.Time // zero: no alarm is set
}

func newStation(now time.Time, cfg model.Config, seed uint64) (*station, error) {
	m, err := model.New[requester](now, cfg, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		return nil, err
	}
	st := &station{model: m}
	st.plain.Store(cfg.Plain())
	return st, nil
}

// arrive passes the request of who to the model. If the outcome is not final, expire returns the
// final one, and cancel takes the handle.
func (st *station) arrive(now time.Time, who requester, handle *model.Handle[requester]) (outcome model.Outcome) {
	st.mu.Lock()
	defer st.mu.Unlock()
	*handle, outcome = st.model.Arrive(now, who)
	st.arm(who.on())
	return outcome
}

// cancel gives up a request, if t is the handle of one.
func (st *station) cancel(t model.Handle[requester]) {
	if t == (model.Handle[requester]{}) {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.model.Cancel(t)
}

// expire appends the requests that have ended by now to done. r is the calling shard.
func (st *station) expire(now time.Time, r *shard, done []model.Completion[requester]) []model.Completion[requester] {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.armed.After(now) {
		st.armed = time.Time{}
	}
	done = st.model.Expire(now, done)
	st.arm(r)
	return done
}

// arm ensures that an alarm is set for the model's next event. The caller holds the lock and is
// on the loop of r.
func (st *station) arm(r *shard) {
	next, ok := st.model.Next()
	if ok && (st.armed.IsZero() || next.Before(st.armed)) {
		st.armed = next
		r.alarm.Set(next)
	}
}

func (st *station) config() model.Config {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.model.Config()
}

// load returns how many requests have a worker, and how many wait for one.
func (st *station) load() (busy, waiting float64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return float64(st.model.Busy()), float64(st.model.Waiting())
}

// change replaces the behaviour in force. If it fails, nothing is changed. Otherwise the caller
// must then have a shard call expire.
func (st *station) change(now time.Time, cfg model.Config) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.model.Change(now, cfg); err != nil {
		return err
	}
	st.plain.Store(cfg.Plain())
	return nil
}

// A shard is the state of one event loop: memory shared by its sessions, its alarm and its
// metrics.
//
// Owned by its loop.
type shard struct {
	server *Server
	loop   *loop.Loop
	alarm  *loop.Alarm
	shared session.LoopState
	meter  meter
	waits  *metric.Histogram             // for a worker
	ended  []model.Completion[requester] // reused by handleAlarm
}

func newShard(s *Server, l *loop.Loop) *shard {
	r := &shard{server: s, loop: l, meter: newMeter(s.histograms, l.Index()),
		waits: metric.NewHistogram(metric.LatencyBuckets())}
	r.alarm = l.NewAlarm(r.handleAlarm)
	return r
}

// handleAlarm advances the model and has each request that has ended answered by its shard.
func (r *shard) handleAlarm(now time.Time) {
	r.ended = r.server.station.expire(now, r, r.ended[:0])
	for _, d := range r.ended {
		if to := d.Who.on(); to == r {
			d.Who.finish(now, d)
		} else {
			to.loop.Post(func(now time.Time) { d.Who.finish(now, d) })
		}
	}
	clear(r.ended) // release the connections
}

// ask passes the request of who to the service. If its outcome is known at once it returns the status of
// the answer; otherwise who.finish is called later.
func (r *shard) ask(now time.Time, who requester, handle *model.Handle[requester]) (status int, done bool) {
	station := r.server.station
	if station.plain.Load() {
		return 200, true
	}
	outcome := station.arrive(now, who, handle)
	if !outcome.Final() {
		return 0, false
	}
	if outcome != model.Refused {
		r.waits.Observe(0)
	}
	return statusOf(outcome), true
}

func statusOf(o model.Outcome) int {
	switch o {
	case model.Served:
		return 200
	case model.Failed:
		return 500
	case model.Refused, model.TimedOut:
		return 503
	}
	panic("bug: a request that is " + o.String() + " has no status")
}

// askOwn passes a request to the own endpoints. If there are too many it returns the answer; otherwise
// reply is called later.
func (r *shard) askOwn(raw []byte, lc *loop.Conn, reply func(now time.Time, r service.Response)) (over service.Response,
	done bool) {
	taken := r.server.pool.Submit(raw, service.Addrs{Remote: lc.Remote(), Local: lc.Local()}, func(own service.Response) {
		r.loop.Post(func(now time.Time) { reply(now, own) })
	})
	if taken {
		return service.Response{}, false
	}
	return service.Overloaded(), true
}

// flush applies the effects on a connection with that deadline.
func (r *shard) flush(lc *loop.Conn, deadline time.Time) {
	r.meter.count(r.shared.Answered) // before the write: an answer that was received has been counted
	if len(r.shared.Out) > 0 {
		lc.Write(r.shared.Out)
	}
	r.shared.Close.Apply(lc, deadline)
	r.shared.Reset()
}

func (r *shard) drain(now time.Time) {
	r.loop.Each(func(_ *loop.Conn, h loop.Handler) { h.(interface{ drain(time.Time) }).drain(now) })
}
