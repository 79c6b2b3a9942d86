package lane

import (
	"time"

	"weir/internal/loop"
	"weir/proxy/store"
)

// A Courier has batches of one lane decided on the lane's loop. No goroutine is woken for
// them.
type Courier interface {
	// Send has b decided by until, and calls done later, once. It returns false, and does
	// nothing, when the backend is to decide b on a helper.
	Send(now time.Time, b *store.Batch, until time.Time, done func(now time.Time)) bool
	// Fetch calls done for batches whose answers have arrived and wait for their turn.
	Fetch(now time.Time)
	// End ends what was sent by sent and is under way. The loop may be late: the store may be
	// back, and decide what was sent since.
	End(now, sent time.Time)
}

// A courierBackend is a backend that has couriers.
type courierBackend interface {
	NewCourier(l *loop.Loop) Courier
}

// On returns a lane of s for a loop. Where the backend has couriers, the lane has one.
func On(s store.Store, l *loop.Loop) store.Lane {
	if on, ok := s.(interface{ on(l *loop.Loop) store.Lane }); ok {
		return on.on(l)
	}
	return s.NewLane(l.Post)
}

func (s *Store) on(l *loop.Loop) store.Lane {
	made := s.newLane(l.Post)
	if b, ok := s.backend.(courierBackend); ok {
		made.courier = b.NewCourier(l)
	}
	return s.add(made)
}

// carried is called when the courier is back with the batch.
func (l *Lane) carried(now time.Time, b *batch) {
	b.landed = now
	b.judge(l.store)
	b.done.Store(true)
	l.land(now, b)
}
