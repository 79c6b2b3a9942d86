package delivery

import (
	"sync"
	"time"

	"weir/internal/net/share"
	"weir/proxy/deferred"
)

const (
	// triesPerRate is how many requests per second are passed to the queue for each that may be
	// stored. The others are there to be refused by another bound.
	triesPerRate = 2
	// rateSlot is the precision of a rate. A permit lasts for a second, and up to one slot longer.
	rateSlot  = 100 * time.Millisecond
	rateSlots = int64(time.Second/rateSlot) + 1
)

// An intake decides which requests are passed to the queue, and how many the queue may store. A
// request that the queue does not store leaves others what may be stored.
//
// Safe for concurrent use: its parts are.
type intake struct{ tries, stores rate }

func newIntake(perSecond int) intake {
	return intake{tries: rate{perSecond: int64(perSecond) * triesPerRate}, stores: rate{perSecond: int64(perSecond)}}
}

// admit reports whether a request of a client may be passed to the queue at now. If so, ended must
// be called with the result.
func (in *intake) admit(now time.Time, c share.Client) (ended func(deferred.Outcome), ok bool) {
	if _, ok := in.tries.take(now, c); !ok {
		return nil, false
	}
	slot, ok := in.stores.take(now, c)
	if !ok {
		return nil, false
	}
	return func(o deferred.Outcome) {
		if o != deferred.Accepted {
			in.stores.giveBack(slot, c)
		}
	}, true
}

// A rate gives at most perSecond permits within any second, and each client its share of them, see
// [share.Usage.Admits].
//
// Safe for concurrent use: mu guards the fields below it.
type rate struct {
	perSecond int64

	mu    sync.Mutex
	held  share.Usage // permits of the last second
	slots [rateSlots]map[share.Client]int64
	last  int64 // number of the latest slot, since the epoch
}

// take takes a permit for a client, and reports whether there was one. slot is for giveBack.
func (r *rate) take(now time.Time, c share.Client) (slot int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now.UnixNano() / int64(rateSlot))
	if !r.held.Admits(c, 1, r.perSecond) {
		return 0, false
	}
	r.add(r.last, c, 1)
	return r.last, true
}

// giveBack returns a permit that was taken in a slot and not used. It has no effect if the permit has
// expired, because its slot is then that of later ones.
func (r *rate) giveBack(slot int64, c share.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := slot > r.last-rateSlots && slot <= r.last
	if kept && r.slots[slot%rateSlots][c] > 0 {
		r.add(slot, c, -1)
	}
}

// advance ends the permits that are older than a second, and all of them if the clock was set back
// by more than that.
func (r *rate) advance(slot int64) {
	from := max(r.last, slot-rateSlots) + 1
	if slot <= r.last-rateSlots {
		from = slot - rateSlots + 1
	} else if slot <= r.last {
		return
	}
	for i := from; i <= slot; i++ {
		for c, n := range r.slots[i%rateSlots] {
			r.held.Add(c, -n)
		}
		r.slots[i%rateSlots] = nil
	}
	r.last = slot
}

func (r *rate) add(slot int64, c share.Client, n int64) {
	of := &r.slots[slot%rateSlots]
	if *of == nil {
		*of = make(map[share.Client]int64)
	}
	(*of)[c] += n
	r.held.Add(c, n)
}
