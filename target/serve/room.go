package serve

import (
	"time"

	"weir/internal/loop"
	"weir/internal/metric"
	"weir/target/model"
	"weir/target/session"
)

// A room is what belongs to one loop: the memory its sessions share, its alarm,
// its metrics. Only the inbox is the station's to fill.
//
// Owned by its loop.
type room struct {
	server *Server
	loop   *loop.Loop
	alarm  *loop.Alarm
	shared session.Shared
	meter  meter
	waits  *metric.Histogram // for a worker

	inbox     []model.Done[*conn] // ended, to be answered
	answering []model.Done[*conn] // the other box, and the one being worked off
	wake      []*room             // scratch of ring
	collect   func(now time.Time) // collectInbox, made once
}

func newRoom(s *Server, l *loop.Loop) *room {
	r := &room{server: s, loop: l, meter: meter{book: s.book, loop: l.Index()}, waits: metric.NewHistogram(metric.Latency())}
	r.alarm = l.NewAlarm(r.ring)
	r.collect = r.collectInbox
	return r
}

// ring lets the model do what is due, answers the room's own requests and has
// the other rooms answer theirs.
func (r *room) ring(now time.Time) {
	r.wake = r.server.station.expire(now, r, r.wake[:0])
	for _, other := range r.wake {
		other.loop.Post(other.collect)
	}
	r.collectInbox(now)
}

// collectInbox answers the requests in the inbox.
func (r *room) collectInbox(now time.Time) {
	r.answering = r.server.station.collect(r, r.answering[:0])
	for _, d := range r.answering {
		d.Who.finish(now, d)
	}
	clear(r.answering) // let go of the connections
}

// drain begins to end every session.
func (r *room) drain(now time.Time) {
	r.loop.Each(func(_ *loop.Conn, h loop.Handler) {
		c := h.(*conn)
		c.session.HandleDrain(now)
		c.flush()
	})
}
