package drive

import (
	"time"

	"weir/internal/net/loop"
	"weir/loadgen/pace"
	"weir/loadgen/record"
	"weir/loadgen/session"
)

const (
	// quantum is the least time between two wake-ups for due requests: what becomes due
	// in between is sent together. It bounds wake-ups to 20,000 a second, and adds at
	// most half of itself to the lag.
	quantum = 50 * time.Microsecond
	// turnSends bounds the requests sent in one turn of the loop, so that answers that
	// have arrived meanwhile are read in time for accurate time stamps.
	turnSends = 64
	// heartbeat is the interval at which a loop wakes while requests wait for a connection, so
	// that it notices its own pauses, and requests that have waited too long, even without other
	// events.
	heartbeat   = time.Millisecond
	queueAgeMax = 10 * time.Second // how long a request may wait for a connection
	turnDrops   = 4096             // requests given up in one turn, at most
)

// An arrival is a request of the schedule.
type arrival struct {
	due   time.Time
	index uint64 // in the schedule of all shards
	sent  uint8  // times that its request was sent, and not processed by the target
}

// sentMax bounds how often one request is sent: a target may close connection after connection, and refuse any number
// of streams.
const sentMax = 4

// A sender sends one loop's share of the schedule.
//
// Requests that are due and cannot be sent, because all connections are busy, stay on the
// lane, which is the queue. So waiting costs no memory, however many wait and however
// long. Only requests that the target did not process are kept separately.
//
// Owned by its loop.
type sender struct {
	run      *Run
	loop     *loop.Loop
	meter    *meter
	tally    *record.Tally
	settings session.LoopSettings

	schedule pace.LoopSchedule
	again    []arrival // to be sent again, before others
	scratch  []byte    // the request rendered last
	pool     session.Pool
	idle     []carrier    // on which a request can be sent, see nextIdle
	turns    int          // counts in nextIdle
	unsent   []*http2Conn // that have frames to send, at the end of the turn
	busy     int
	peak     int
	warmed   bool // the first connections are open, and the run was notified
	started  bool // the schedule has begun
	stopped  bool // the schedule was ended early
	over     bool // all requests of this loop have ended
	start    time.Time
	end      time.Time // of the schedule

	alarm   *loop.Alarm
	wakeAt  time.Time // the time that the alarm is set to; zero: it is not set
	rang    time.Time // when the alarm last rang
	onward  func(now time.Time)
	resumed bool // onward is posted

	starved bool // requests wait and no connection is free
	blame   pace.LagSplit
}

func newSender(r *Run, l *loop.Loop, size session.PoolSize) *sender {
	s := &sender{
		run: r, loop: l, meter: &r.settings.Metrics.loops[l.Index()], tally: record.NewTally(),
		settings: session.LoopSettings{Method: r.plan.Method, KeepAlive: r.plan.KeepAlive, Timeout: r.plan.Timeout,
			Scheme: map[bool]string{false: "http", true: "https"}[r.plan.Secure], Streams: r.plan.Streams, GRPC: r.plan.GRPC},
		schedule: r.plan.Schedule.ForLoop(l.Index(), r.loops), pool: session.NewPool(size),
	}
	s.tally.Keep = r.settings.Outcomes != nil
	s.onward = func(now time.Time) {
		s.resumed = false
		s.turn(now)
	}
	return s
}

func (s *sender) warmUp(time.Time) {
	s.alarm = s.loop.NewAlarm(func(now time.Time) {
		s.rang = now
		s.turn(now)
	})
	s.dial(s.pool.Begin())
	s.maybeWarm()
}

// maybeWarm notifies the run when the first connections are open, or have failed.
func (s *sender) maybeWarm() {
	if !s.warmed && s.pool.Dialing() == 0 {
		s.warmed = true
		s.run.warm <- s.loop.Index()
	}
}

// begin starts the schedule; start may lie ahead.
func (s *sender) begin(now, start time.Time) {
	s.started = true
	s.start, s.end = start, start.Add(s.run.plan.Schedule.Length())
	s.turn(now)
}

// turn sends what is due. It is called when the alarm rings and at the end of every
// event: the loop is awake anyway, and the busier it is the better it keeps the schedule.
func (s *sender) turn(now time.Time) {
	s.sendDue(now)
	s.flush()
}

func (s *sender) sendDue(now time.Time) {
	if !s.started || s.over {
		return
	}
	if s.starved {
		s.starved = false
		s.blame.Ready(now, s.wakeAt)
	}
	for range turnSends {
		next, ok := s.next(now)
		if !ok {
			s.blame.CaughtUp()
			s.rest(now)
			return
		}
		if now, ok = s.launch(now, next); !ok {
			s.starve(now)
			s.rest(now)
			return
		}
	}
	if !s.resumed { // another turn, after the loop has checked its sockets
		s.resumed = true
		s.loop.Post(s.onward)
	}
}

// next returns the request to send next, if it is due.
func (s *sender) next(now time.Time) (a arrival, ok bool) {
	if len(s.again) > 0 {
		return s.again[0], true
	}
	after, ok := s.schedule.Due()
	a = arrival{due: s.start.Add(after), index: s.schedule.Index()}
	return a, ok && !a.due.After(now)
}

func (s *sender) take(a arrival) {
	if a.sent > 0 {
		s.again = s.again[:copy(s.again, s.again[1:])]
		return
	}
	s.schedule.Take()
}

// launch takes the next request and sends it. If each request has its own connection, it dials
// one instead, and connecting is part of the service time. It returns the time of sending or
// dialling, and false if there is no connection.
func (s *sender) launch(now time.Time, a arrival) (time.Time, bool) {
	if !s.settings.KeepAlive {
		if s.pool.Dial(now, s.pool.Dialing()+1) == 0 {
			return now, false
		}
		s.take(a)
		now = time.Now() // the turn may have taken a while, so its time is too old
		s.note(now, a.due, false)
		s.busy++
		s.loop.Dial(s.run.addr, s.settings.Timeout, s.run.secure, s.dialledFor(now, a))
		return now, true
	}
	c := s.nextIdle()
	if c == nil {
		return now, false
	}
	s.take(a)
	request := s.request(a)
	now = time.Now()
	if a.sent == 0 {
		l := c.base()
		s.note(now, a.due, a.due.Before(l.opened) && l.requests < s.settings.Streams)
	}
	s.busy++
	c.send(now, a, request)
	return now, true
}

// request returns bytes that are valid until the next call.
func (s *sender) request(a arrival) []byte {
	return s.run.plan.Request.Render(&s.scratch, a.index)
}

// note counts a request that is started now; fresh says that it has waited for a connection to be opened.
func (s *sender) note(now, due time.Time, fresh bool) {
	lag, pacerLag := now.Sub(due), s.blame.PacerLag(now, due)
	s.tally.Start(lag, pacerLag, now.Sub(s.end), fresh)
	s.meter.lag.Observe(lag)
}

// starve handles requests for which no connection is free: those that have waited too
// long are given up, and more connections are dialled.
func (s *sender) starve(now time.Time) {
	s.starved = true
	s.blame.Dry(now)
	oldest := now.Add(-s.run.settings.queueAge)
	if now.Sub(s.end) > s.settings.Timeout {
		oldest = now // after the schedule a request waits no longer than for an answer
	}
	for range turnDrops {
		a, ok := s.next(now)
		if !ok || a.due.After(oldest) {
			break
		}
		s.refuse(now, record.QueueFull)
	}
	if s.settings.KeepAlive && !s.pool.Full() {
		s.dial(s.pool.Dial(now, s.connections(s.waiting(now))))
	}
}

// connections returns how many connections have a stream for each of so many requests.
func (s *sender) connections(requests uint64) uint64 {
	streams := uint64(s.settings.Streams)
	return (requests + streams - 1) / streams
}

// waiting returns how many requests are due and not sent.
func (s *sender) waiting(now time.Time) uint64 {
	return s.schedule.Waiting(now.Sub(s.start)) + uint64(len(s.again))
}

// refuse ends the next request because there is no connection for it.
func (s *sender) refuse(now time.Time, r record.Reason) {
	a, ok := s.next(now)
	if !ok {
		return
	}
	s.take(a)
	o := record.Outcome{Reason: r, Due: a.due, Done: now}
	switch {
	case a.sent == 0 && r != record.QueueFull: // it has waited for the connection that failed
		s.note(now, a.due, true)
		s.tally.Unconnect(&o, s.end)
	case a.sent > 0 && r == record.QueueFull: // it was sent, and then closed or refused by the target
		o.Reason = record.Closed
		fallthrough
	default:
		s.tally.Finish(&o, s.end)
	}
	s.meter.finished(&o)
}

// rest sets the alarm for what comes next, or ends the run on this loop.
func (s *sender) rest(now time.Time) {
	if s.over {
		return
	}
	after, more := s.schedule.Due()
	switch {
	case s.starved:
		if s.wakeAt.After(now) && s.wakeAt.Sub(now) <= heartbeat {
			return // a beat is on its way
		}
		s.wake(now.Add(heartbeat))
	case more:
		at := s.start.Add(after)
		if soonest := s.rang.Add(quantum); at.Before(soonest) {
			at = soonest
		}
		s.wake(at)
	case s.busy == 0 && len(s.again) == 0:
		s.finish()
	}
}

func (s *sender) wake(at time.Time) {
	if !at.Equal(s.wakeAt) {
		s.wakeAt = at
		s.alarm.Set(at)
	}
}

// stop ends the schedule at the given time: requests that were due and not sent are
// dropped.
func (s *sender) stop(now, at time.Time) {
	if s.over {
		return
	}
	s.stopped = true
	if s.started {
		s.schedule.Cut(at.Sub(s.start))
		s.end = at
		s.tally.Unsent += s.schedule.Drop()
	} else {
		s.schedule.Drop()
		s.started = true
	}
	s.tally.Abandoned += uint64(len(s.again))
	s.again = s.again[:0]
	s.starved = false
	s.rest(now)
}

func (s *sender) abandon(time.Time) {
	if !s.over {
		s.tally.Abandoned += uint64(s.busy)
		s.busy = 0
		s.finish()
	}
}

func (s *sender) finish() {
	s.over = true
	s.alarm.Stop()
	s.run.ended <- s.loop.Index()
}
