package lane

import (
	"time"

	"weir/internal/net/loop"
	"weir/proxy/store"
)

// A LoopClient sends the batches of one lane to the backend on the lane's loop, instead of helpers,
// so that no goroutine is woken.
type LoopClient interface {
	// Send sends b, which must be decided by until, and calls done later, once.
	Send(now time.Time, b *store.Batch, until time.Time, done func(now time.Time))
	// Fetch calls done for batches whose answers have already arrived.
	Fetch(now time.Time)
	// End ends batches in flight that were sent by sent. Later ones continue, since the
	// loop may be late, and the store available again.
	End(now, sent time.Time)
}

// ForLoop returns a lane of s for a loop, with an alarm for deadlines, and a loop client if the backend
// has loop clients.
func ForLoop(s store.Store, l *loop.Loop) store.Lane {
	if s, ok := s.(interface{ on(l *loop.Loop) store.Lane }); ok {
		return s.on(l)
	}
	return s.NewLane(l.Post)
}

func (s *Store) on(l *loop.Loop) store.Lane {
	made := s.newLane(l.Post)
	made.alarm = l.NewAlarm(made.ring)
	if b, ok := s.backend.(interface{ NewLoopClient(l *loop.Loop) LoopClient }); ok {
		made.loopClient = b.NewLoopClient(l)
	} else {
		made.startHelpers()
	}
	return s.add(made) // last: from now on other goroutines read it
}

// arm sets the alarm for the earliest deadline of an ask.
func (l *Lane) arm() {
	if l.alarm == nil {
		return
	}
	if at := l.Next(); !at.IsZero() {
		l.alarm.Set(at)
	}
}

// ring is called by the alarm.
func (l *Lane) ring(now time.Time) {
	l.Expire(now)
	l.arm()
}

// carried is called when the loop client has finished with the batch.
func (l *Lane) carried(now time.Time, b *batch) {
	b.landed = now
	b.judge(l.store)
	b.done.Store(true)
	l.land(now, b)
}
