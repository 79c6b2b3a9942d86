package serve

import (
	"time"

	"weir/internal/loop"
	"weir/internal/metric"
	"weir/target/model"
	"weir/target/session"
)

// A shard is the state of one event loop: memory shared by its sessions, its alarm and its
// metrics.
//
// Owned by its loop, except for inbox, which the station guards.
type shard struct {
	server *Server
	loop   *loop.Loop
	alarm  *loop.Alarm
	shared session.Shared
	meter  meter
	waits  *metric.Histogram // for a worker

	inbox     []model.Done[*conn] // requests to answer
	answering []model.Done[*conn] // the other buffer of the inbox
	wake      []*shard            // reused by handleAlarm
	collect   func(now time.Time) // collectInbox, allocated once
}

func newShard(s *Server, l *loop.Loop) *shard {
	r := &shard{server: s, loop: l, meter: newMeter(s.histograms, l.Index()), waits: metric.NewHistogram(metric.Latency())}
	r.alarm = l.NewAlarm(r.handleAlarm)
	r.collect = r.collectInbox
	return r
}

// handleAlarm advances the model, answers the shard's requests and has the other shards answer
// theirs.
func (r *shard) handleAlarm(now time.Time) {
	r.wake = r.server.station.expire(now, r, r.wake[:0])
	for _, other := range r.wake {
		other.loop.Post(other.collect)
	}
	r.collectInbox(now)
}

func (r *shard) collectInbox(now time.Time) {
	r.answering = r.server.station.collect(r, r.answering[:0])
	for _, d := range r.answering {
		d.Who.finish(now, d)
	}
	clear(r.answering) // release the connections
}

func (r *shard) drain(now time.Time) {
	r.loop.Each(func(_ *loop.Conn, h loop.Handler) {
		c := h.(*conn)
		c.session.HandleDrain(now)
		c.flush()
	})
}
