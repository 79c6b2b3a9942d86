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
// Owned by its loop.
type shard struct {
	server *Server
	loop   *loop.Loop
	alarm  *loop.Alarm
	shared session.Shared
	meter  meter
	waits  *metric.Histogram   // for a worker
	ended  []model.Done[*conn] // reused by handleAlarm
}

func newShard(s *Server, l *loop.Loop) *shard {
	r := &shard{server: s, loop: l, meter: newMeter(s.histograms, l.Index()), waits: metric.NewHistogram(metric.Latency())}
	r.alarm = l.NewAlarm(r.handleAlarm)
	return r
}

// handleAlarm advances the model and has each request that has ended answered by its shard.
func (r *shard) handleAlarm(now time.Time) {
	r.ended = r.server.station.expire(now, r, r.ended[:0])
	for _, d := range r.ended {
		if to := d.Who.shard; to == r {
			d.Who.finish(now, d)
		} else {
			to.loop.Post(func(now time.Time) { d.Who.finish(now, d) })
		}
	}
	clear(r.ended) // release the connections
}

func (r *shard) drain(now time.Time) {
	r.loop.Each(func(_ *loop.Conn, h loop.Handler) {
		c := h.(*conn)
		c.session.HandleDrain(now)
		c.flush()
	})
}
